package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/workbench"
)

func newRBACCommand(s *settings, stdout, stderr io.Writer) *cobra.Command {
	var output string
	var r workbench.RBACOptions
	cmd := uses(&cobra.Command{
		Use:   "rbac",
		Short: "Print the Roles that the bindings of the hooks need",
		Long: `Print the least permissions that the operator needs for the bindings of its hooks, as manifests for kubectl apply. Comments
name the hook that needs each rule. Requests of the hooks themselves, and their operations, are not included.

Hooks are called with --config. Kinds are resolved by the cluster if there is one; otherwise built-in kinds are known,
and the resources of other kinds are guessed and marked by a comment.`,
		Example: `  shell-operator rbac --hooks-dir hooks --namespace shell-operator | kubectl apply -f -
  shell-operator rbac --name pods-operator --service-account pods-operator --offline`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := untilSignal()
			defer stop()
			if s.election.on {
				r.Lease = s.election.lease
			}
			r.Events = s.kubernetesEvents
			r.Namespace, r.Configuration, r.Secret = s.namespace, s.configurationName, s.webhookSecret
			manifests, notes, err := workbench.RBAC(ctx, s.workbench(), r)
			for _, note := range notes {
				fmt.Fprintf(stderr, "Note: %s\n", note)
			}
			if err != nil {
				return err
			}
			if format(output) == formatJSON {
				return printManifests(stdout, manifests)
			}
			_, err = io.WriteString(stdout, manifests)
			return err
		},
	}, "hooks-dir", "config-timeout", "namespace", "validating-webhook-configuration-name", "webhook-secret",
		"leader-election", "leader-election-lease", "kubernetes-events", "kube-config", "kube-context")
	addFormat(cmd, &output, formatYAML, formatJSON)
	cmd.Flags().StringVar(&r.Name, "name", "shell-operator-hooks", "name of the Roles and their bindings; not the name of the chart's own Role")
	cmd.Flags().StringVar(&r.ServiceAccount, "service-account", "shell-operator", "ServiceAccount of the operator, in --namespace")
	cmd.Flags().BoolVar(&r.Offline, "offline", false, "use no cluster")
	return cmd
}

// printManifests prints manifests as one list in JSON, which has no place for comments.
func printManifests(w io.Writer, manifests string) error {
	type list struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	all := list{"v1", "List", []json.RawMessage{}}
	for i, doc := range strings.Split(manifests, "---\n") {
		if i == 0 {
			continue // the comment at the beginning
		}
		item, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			return fmt.Errorf("cannot print the manifests as JSON: %w", err)
		}
		all.Items = append(all.Items, item)
	}
	return printValue(w, string(formatJSON), all)
}
