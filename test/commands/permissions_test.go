package commands

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestPermissions is the day of an author who is no administrator: rbac prints the Role that bindings need, a failed operation names its
// rule, and rbac --from-runs prints the rules for all operations that the operator has sent. Each printed Role is enough.
func TestPermissions(t *testing.T) {
	c := testenv.Shared(t)
	own, shop := c.Namespace(t), c.Namespace(t)
	c.Kubectl(t, "-n", own, "create", "serviceaccount", "operator")
	user := "system:serviceaccount:" + own + ":operator"
	kubeconfig := c.KubeconfigOf(t, own, "operator")
	dir := testenv.Hooks(t, map[string]string{"copy.sh": `#!/bin/sh
set -eu
if [ "${1:-}" = --config ]; then
  cat <<YAML
configVersion: v1
kubernetes:
- name: settings
  apiVersion: v1
  kind: ConfigMap
  labelSelector: {matchLabels: {copy: "yes"}}
  jqFilter: .data.n | tonumber
  namespace: {nameSelector: {matchNames: [` + shop + `]}}
  executeHookOnSynchronization: false
YAML
  exit
fi
cat >"$KUBERNETES_PATCH_PATH" <<JSON
{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "` + shop + `", "name": "copy"}}}
{"operation": "MergePatch", "kind": "Namespace", "name": "` + shop + `", "mergePatch": {"metadata": {"labels": {"copied": "yes"}}}}
JSON
`})
	names := []string{"--hooks-dir", dir, "--namespace", own, "--name", own, "--service-account", "operator"}
	c.KubectlInput(t, command(t, c.Kubeconfig, append([]string{"rbac"}, names...)...), "apply", "-f", "-")
	c.UntilAllowed(t, user, shop, "watch", "configmaps")
	op := testenv.Start(t,
		testenv.OperatorOptions{HooksDir: dir, Kubeconfig: kubeconfig, Args: []string{"--retry-min-delay", "1s", "--namespace", own}})
	op.UntilLog("Kubernetes bindings for hook are enabled successfully", "hook", "copy.sh")
	c.KubectlInput(t, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good", "labels": {"copy": "yes"}}, "data": {"n": "1"}}`,
		"-n", shop, "create", "-f", "-")
	failed := op.UntilLog("Hook failed. Will retry after delay.", "hook", "copy.sh")
	for _, rule := range []string{
		`by a Role in namespace "` + shop +
			`" (or a ClusterRole), the rule {apiGroups: [""], resources: ["secrets"], verbs: ["create", "get", "update"]}`,
		`by a ClusterRole, the rule {apiGroups: [""], resources: ["namespaces"], verbs: ["patch"]}`,
	} {
		if !strings.Contains(failed.Fields["error"], rule) {
			t.Errorf("the error does not name %s: %s", rule, failed.Fields["error"])
		}
	}
	socket := []string{"--debug-unix-socket", op.Socket}
	manifests := command(t, kubeconfig,
		slices.Concat([]string{"rbac", "--from-runs"}, names, socket)...)
	for _, part := range []string{
		"# copy.sh, operation CreateOrUpdate, first seen 20", "# copy.sh, operation MergePatch, first seen 20",
		`# copy.sh, kubernetes "settings"`, "kind: ClusterRole\n", "kind: Role\n",
	} {
		if !strings.Contains(manifests, part) {
			t.Errorf("%q is not in\n%s", part, manifests)
		}
	}
	c.KubectlInput(t, manifests, "apply", "-f", "-")
	t.Cleanup(func() { c.Kubectl(t, "delete", "clusterrole,clusterrolebinding", own) })
	op.UntilLog("Hook executed successfully", "hook", "copy.sh")
	if list := command(t, kubeconfig, append([]string{"raw", "/operation/list"}, socket...)...); strings.Count(list, "copy.sh") != 2 {
		t.Errorf("two kinds of operations were sent, but\n%s", list)
	}
}

// try runs the program and returns its standard output and status.
func try(t *testing.T, kubeconfig string, args ...string) (out string, status int) {
	t.Helper()
	cmd := exec.Command(testenv.Binary(t), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+test.Tools(t)+":"+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Logf("%q: %s", args, stderr.String())
	}
	return stdout.String(), cmd.ProcessState.ExitCode()
}
