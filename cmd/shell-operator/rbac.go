package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/dev"
	"github.com/shell-operator/shell-operator/internal/dev/rbac"
)

func newRBACCommand(s *settings, stdout, stderr io.Writer) *cobra.Command {
	var output, account string
	var check bool
	var fromRuns, fromTests bool
	var r dev.RBACOptions
	cmd := uses(&cobra.Command{
		Use:   "rbac [PATH…]",
		Short: "Print the Roles that the bindings and operations of hooks need",
		Long: `Print the least permissions that the operator needs for the bindings of its hooks, as manifests for kubectl apply. Comments
name the hook that needs each rule. --from-runs adds the operations that a running operator has sent since its start, those that were
rejected for a missing permission included. --from-tests runs the cases of the test files below each PATH, by default of the hooks directory
and of the directory tests beside it, and adds their operations: it needs no cluster. Requests of the hooks themselves are not included.

--check compares the Roles with what is granted to an account in the cluster: rules that are missing, and what is granted in the namespaces
of the hooks though no hook needs it. For another account than that of the connection, --as impersonates it; without this permission,
only the first part is known. The exit code is 1 if something is missing.

With --tenants, hooks of tenants write as their accounts: each account has Roles of its own, and the operator has the rules for tokens.
Both need the rules for what is watched.

Hooks are called with --config. Kinds are resolved by the cluster if there is one; otherwise built-in kinds are known,
and the resources of other kinds are guessed and marked by a comment.`,
		Example: `  shell-operator rbac --hooks-dir hooks --namespace shell-operator | kubectl apply -f -
  shell-operator rbac --name pods-operator --service-account pods-operator --offline
  shell-operator rbac --from-tests --offline >rbac.yaml
  shell-operator rbac --from-tests --check --as shell-operator/shell-operator
  kubectl -n shell-operator exec deploy/shell-operator -- /shell-operator rbac --from-runs >rbac.yaml`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !fromTests {
				return &hinted{fmt.Errorf("unexpected argument %q", args[0]), "paths are those of test files, for --from-tests"}
			}
			if fromTests {
				r.Tests = s.testPaths(args)
			}
			ctx, stop := untilSignal()
			defer stop()
			s.fillRBAC(&r)
			if fromRuns {
				sent, err := s.sent(ctx)
				if err != nil {
					return err
				}
				r.FromRuns = sent
			}
			switch {
			case !check && account != "":
				return errors.New("--as names the account for --check: set both")
			case check && r.Offline:
				return errors.New("--check compares with a cluster: leave --offline out")
			case check:
				return checkRBAC(ctx, s, r, account, output, stdout, stderr)
			}
			manifests, notes, err := dev.RBAC(ctx, s.dev(), r)
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
	}, "hooks-dir", "tenants", "config-timeout", "namespace", "validating-webhook-configuration-name", "webhook-secret",
		"leader-election", "shards", "leader-election-lease", "kubernetes-events", "kube-config", "kube-context", "debug-unix-socket")
	addFormat(cmd, &output, formatYAML, formatJSON)
	cmd.Flags().StringVar(&r.Name, "name", defaultRole, "name of the Roles and their bindings; not the name of the chart's own Role")
	cmd.Flags().StringVar(&r.ServiceAccount, "service-account", defaultAccount, "ServiceAccount of the operator, in --namespace")
	cmd.Flags().BoolVar(&r.Offline, "offline", false, "use no cluster")
	cmd.Flags().BoolVar(&fromRuns, "from-runs", false, "add the operations that the running operator has sent")
	cmd.Flags().BoolVar(&fromTests, "from-tests", false, "add the operations of the test cases of the hooks")
	cmd.Flags().BoolVar(&check, "check", false, "print what the cluster does not grant of the Roles, and what it grants besides")
	cmd.Flags().StringVar(&account, "as", "", "with --check: ServiceAccount as NAMESPACE/NAME, or user; default: the user of the connection")
	return cmd
}

// checkRBAC prints how the Roles differ from what is granted.
func checkRBAC(ctx context.Context, s *settings, r dev.RBACOptions, account, output string, stdout, stderr io.Writer) error {
	report, err := dev.CheckRBAC(ctx, s.dev(), r, account)
	for _, note := range report.Notes {
		fmt.Fprintf(stderr, "Note: %s\n", note)
	}
	if err != nil {
		return err
	}
	if format(output) == formatJSON {
		err = printValue(stdout, output, report)
	} else {
		_, err = io.WriteString(stdout, accessText(report))
	}
	if err == nil && len(report.Missing) > 0 {
		return errFound{count(len(report.Missing), "rule") + " missing"}
	}
	return err
}

// accessText is a report as text.
func accessText(r dev.AccessReport) string {
	var b strings.Builder
	of := func(a dev.AccessRule, everywhere string) string {
		text := strings.Join(a.Verbs, ", ") + " " + a.Resource
		if a.Group != "" {
			text += "." + a.Group
		}
		if len(a.Names) > 0 {
			text += " " + strings.Join(a.Names, ", ")
		}
		if a.Namespace != "" {
			return text + " in namespace " + a.Namespace
		}
		return text + everywhere
	}
	if len(r.Missing) == 0 {
		b.WriteString("nothing is missing\n")
	} else {
		b.WriteString("missing:\n")
	}
	for _, a := range r.Missing {
		fmt.Fprintf(&b, "- %s: %s\n  %s\n", of(a, ""), strings.Join(a.Why, "; "), a.Hint)
	}
	if len(r.Unneeded) > 0 {
		b.WriteString("granted, and needed by no hook:\n")
	}
	for _, a := range r.Unneeded {
		fmt.Fprintf(&b, "- %s\n", of(a, " in all namespaces of the hooks"))
	}
	for _, text := range r.Unknown {
		fmt.Fprintf(&b, "not known: %s\n", text)
	}
	return b.String()
}

// testPaths are those of the arguments, or the hooks directory and the directory tests beside it.
func (s *settings) testPaths(args []string) []string {
	if len(args) > 0 {
		return args
	}
	paths := []string{s.HooksDir}
	if absolute, err := filepath.Abs(s.HooksDir); err == nil {
		beside := filepath.Join(filepath.Dir(absolute), "tests")
		if info, err := os.Stat(beside); err == nil && info.IsDir() {
			paths = append(paths, beside)
		}
	}
	return paths
}

// defaultRole and defaultAccount are names in the manifests.
const (
	defaultRole    = "shell-operator-hooks"
	defaultAccount = "shell-operator"
)

// fillRBAC adds what the settings name.
func (s *settings) fillRBAC(r *dev.RBACOptions) {
	if s.Election.Enabled || s.shards() > 0 {
		r.Lease, r.Shards = s.Election.Lease, s.shards() > 0
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
			Hook: o.Hook, Namespace: o.Namespace, Group: o.Group, Resource: o.Resource, Verbs: o.Verbs,
			Why: fmt.Sprintf("%s, operation %s, first seen %s", o.Hook, o.Operation, o.First.UTC().Format(time.RFC3339)),
		})
	}
	return sent, nil
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
