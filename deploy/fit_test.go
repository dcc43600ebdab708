package deploy

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestValuesThatDoNotFit installs the chart without webhooks and finalizers for hooks that have both: helm test, which is status, fails and
// names what is missing.
func TestValuesThatDoNotFit(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	manifest, problem := render(t, namespace, "kubernetesEvents: false\nrbac: {rules: [{apiGroups: [''], resources: [configmaps], "+
		"verbs: [list, watch, patch]}]}", "--no-hooks")
	if problem != "" {
		t.Fatal(problem)
	}
	cluster.KubectlInput(t, manifest, "apply", "--server-side", "-f", "-")
	t.Cleanup(func() { cluster.KubectlInput(t, manifest, "delete", "--ignore-not-found", "--wait=false", "-f", "-") })
	cluster.UntilAllowed(t, "system:serviceaccount:"+namespace+":shop-shell-operator", namespace, "list", "configmaps")
	hooks := t.TempDir()
	for name, config := range map[string]string{
		"label.sh": `{configVersion: v1, kubernetesMutating: [{name: label.example.com, labelSelector: {matchLabels: {never: set}}, ` +
			`rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}]}`,
		"clean.sh": `{configVersion: v1, kubernetes: [{name: maps, kind: ConfigMap, finalizer: example.com/clean, ` +
			`executeHookOnEvent: [Deleting], namespace: {nameSelector: {matchNames: [` + namespace + `]}}}]}`,
	} {
		text := "#!/bin/sh\n[ \"$1\" != --config ] || echo '" + config + "'\n"
		testenv.Script(t, hooks, name, text)
	}
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: hooks, Kubeconfig: cluster.KubeconfigOf(t, namespace, "shop-shell-operator"),
		Args: []string{"--namespace", namespace, "--validating-webhook-listen-address", "127.0.0.1", "--validating-webhook-listen-port", "0",
			"--kubernetes-events=false"},
	})
	var out []byte
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("status prints\n%s", out)
		}
	})
	until(t, "status names both and fails", func() bool {
		var err error
		out, err = op.Command("status").CombinedOutput()
		var exit *exec.ExitError
		return errors.As(err, &exit) && exit.ExitCode() == 1 && strings.Contains(string(out), "label.sh") &&
			strings.Contains(string(out), "webhooks are not registered") && strings.Contains(string(out), "clean.sh") &&
			strings.Contains(string(out), "finalizer")
	})
}
