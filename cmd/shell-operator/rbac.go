package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/dev"
	"github.com/shell-operator/shell-operator/internal/dev/rbac"
)

func newRBACCommand(s *settings, stdout, stderr io.Writer) *cobra.Command {
	var fromRuns, fromTests bool
	var output string
	var r dev.RBACOptions
	cmd := uses(&cobra.Command{
		Use:   "rbac [HOOKS-DIR | PATH…]",
		Short: "Print the Roles that the bindings and operations of hooks need",
		Long: `Print the least permissions that the operator needs for the bindings of its hooks, as manifests for kubectl apply. Comments
name the hook that needs each rule. --from-runs adds the operations that a running operator has sent since its start, those that were
rejected for a missing permission included. --from-tests runs the cases of the test files below each PATH, by default of the hooks directory
and of the directory tests beside it, and adds their operations: it needs no cluster. Requests of the hooks themselves are not included.

With -o values, the result are values of the chart, for a release in --namespace: what the chart grants by itself is left out.

Hooks are called with --config. Kinds are resolved by the cluster if there is one; otherwise built-in kinds are known,
and the resources of other kinds are guessed and marked by a comment.`,
		Example: `  shell-operator rbac --hooks-dir hooks --namespace shell-operator | kubectl apply -f -
  shell-operator rbac --name pods-operator --service-account pods-operator --offline
  shell-operator rbac --from-tests --offline >rbac.yaml
  shell-operator rbac --from-tests --offline --namespace my-operator -o values >rbac-values.yaml
  kubectl -n shell-operator exec deploy/shell-operator -- /shell-operator rbac --from-runs >rbac.yaml`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && !fromTests && isDir(args[0]) {
				s.HooksDir = args[0]
			} else if len(args) > 0 && !fromTests {
				return &hinted{fmt.Errorf("unexpected argument %q", args[0]), "name the directory of the hooks, or test files for --from-tests"}
			}
			if fromTests {
				r.Tests = s.testPaths(args)
			}
			ctx, stop := untilSignal()
			defer stop()
			s.fillRBAC(&r)
			r.HooksOnly = output == rbacValues
			if fromRuns {
				sent, err := s.sent(ctx)
				if err != nil {
					return err
				}
				r.FromRuns = sent
			}
			manifests, notes, err := dev.RBAC(ctx, s.dev(), r)
			for _, note := range notes {
				fmt.Fprintf(stderr, "Note: %s\n", note)
			}
			if err != nil {
				return err
			}
			_, err = io.WriteString(stdout, manifests)
			return err
		},
	}, "hooks-dir", "config-timeout", "namespace", "validating-webhook-configuration-name", "webhook-secret",
		"leader-election", "shards", "leader-election-lease", "kubernetes-events", "kube-config", "kube-context", "debug-unix-socket")
	addFormat(cmd, &output, formatYAML, rbacValues)
	cmd.Flags().StringVar(&r.Name, "name", defaultRole, "name of the Roles and their bindings; not the name of the chart's own Role")
	cmd.Flags().StringVar(&r.ServiceAccount, "service-account", defaultAccount, "ServiceAccount of the operator, in --namespace")
	cmd.Flags().BoolVar(&r.Offline, "offline", false, "use no cluster")
	cmd.Flags().BoolVar(&fromRuns, "from-runs", false, "add the operations that the running operator has sent")
	cmd.Flags().BoolVar(&fromTests, "from-tests", false, "add the operations of the test cases of the hooks")
	return cmd
}

// testPaths returns the arguments, or the hooks directory and the directory tests beside it.
func (s *settings) testPaths(args []string) []string {
	if len(args) > 0 {
		return args
	}
	paths := []string{s.HooksDir}
	if absolute, err := filepath.Abs(s.HooksDir); err == nil {
		if beside := filepath.Join(filepath.Dir(absolute), "tests"); isDir(beside) {
			paths = append(paths, beside)
		}
	}
	return paths
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// defaultRole and defaultAccount are names in the manifests.
const (
	defaultRole    = "shell-operator-hooks"
	defaultAccount = "shell-operator"
	// rbacValues is the form of values of the chart.
	rbacValues = "values"
)

// fillRBAC adds what the settings name.
func (s *settings) fillRBAC(r *dev.RBACOptions) {
	if s.Election.Enabled || s.shards() > 0 {
		r.Lease, r.Shards = s.Election.Lease, s.shards()
	}
	r.Events = s.KubernetesEvents
	r.Namespace, r.Configuration, r.Secret = s.Installation.Namespace, s.Webhooks.ConfigurationName+"-hooks", s.Webhooks.SecretName
}

// sent asks the running operator for the operations that it has sent.
func (s *settings) sent(ctx context.Context) (*dev.Sent, error) {
	body, err := debug.NewClient(s.place(), 10*time.Second).Get(ctx, "/operation/list.json")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var list debug.SentList
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		return nil, fmt.Errorf("cannot read the operations of the operator: %w", err)
	}
	sent := &dev.Sent{Dropped: list.Dropped}
	for _, o := range list.Operations {
		sent.Uses = append(sent.Uses, rbac.Use{
			Namespace: o.Namespace, Group: o.Group, Resource: o.Resource, Verbs: o.Verbs,
			Why: fmt.Sprintf("%s, operation %s, first seen %s", o.Hook, o.Operation, o.First.UTC().Format(time.RFC3339)),
		})
	}
	return sent, nil
}
