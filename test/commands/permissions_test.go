package commands

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestPermissions is the day of an author who is no administrator: lint names the permissions that bindings lack, a failed operation names
// its rule, and rbac --from-runs prints the rules for all operations that the operator has sent. Each printed Role is enough.
func TestPermissions(t *testing.T) {
	c := testenv.Shared(t)
	own, shop := c.Namespace(t), c.Namespace(t)
	c.Kubectl(t, "-n", own, "create", "serviceaccount", "operator")
	user := "system:serviceaccount:" + own + ":operator"
	kubeconfig := kubeconfigOf(t, c, own, "operator")
	dir := hooksDir(t, map[string]string{"copy.sh": `#!/bin/sh
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
	c.Kubectl(t, "-n", shop, "create", "configmap", "bad", "--from-literal=n=top-secret")
	c.Kubectl(t, "-n", shop, "label", "configmap", "bad", "copy=yes")

	lint := []string{"lint", "--cluster", "--quiet", "--namespace", own, dir}
	asUser, status := try(t, kubeconfig, lint...)
	missing := `no permission to get, list, watch configmaps in namespace ` + shop +
		`: copy.sh, kubernetes "settings" (give the operator's ServiceAccount, by a Role in namespace "` + shop
	if status != 1 || !strings.Contains(asUser, missing) {
		t.Fatalf("as an ordinary user, status %d:\n%s", status, asUser)
	}
	asAdmin, status := try(t, c.Kubeconfig, append(lint, "--as", user)...)
	if status != 1 || !strings.Contains(asAdmin, missing) || strings.Contains(asAdmin, "top-secret") {
		t.Fatalf("with --as, status %d:\n%s", status, asAdmin)
	}
	if want := "copy.sh:11:3: warning: binding \"settings\": the filter fails for 1 of 1 objects: tonumber cannot be applied " +
		"to this string"; !strings.Contains(strings.ReplaceAll(asAdmin, dir+"/", ""), want) {
		t.Errorf("no finding %q:\n%s", want, asAdmin)
	}
	_, role, _ := strings.Cut(asAdmin, "# Permissions that are missing")
	c.KubectlInput(t, strings.ReplaceAll("#"+role, "name: \"shell-operator\"", "name: operator"), "apply", "-f", "-")
	c.UntilAllowed(t, user, shop, "watch", "configmaps")
	if out, status := try(t, kubeconfig, lint...); status != 0 || strings.Contains(out, "error") {
		t.Errorf("with the printed Role, status %d:\n%s", status, out)
	}

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
		append([]string{"rbac", "--from-runs", "--hooks-dir", dir, "--namespace", own, "--name", own, "--service-account", "operator"},
			socket...)...)
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

// TestLintCluster finds kinds that are not served and namespaces that do not exist, and changes nothing.
func TestLintCluster(t *testing.T) {
	c := testenv.Shared(t)
	dir := hooksDir(t, map[string]string{"kinds.sh": `#!/bin/sh
cat <<YAML
configVersion: v1
kubernetes:
- {name: moved, kind: Deployment, apiVersion: v1}
- {name: unknown, kind: Unheard, apiVersion: example.com/v1}
- name: nowhere
  apiVersion: v1
  kind: ConfigMap
  namespace: {nameSelector: {matchNames: [no-such-namespace]}}
- {name: no-status, apiVersion: v1, kind: ConfigMap, nameSelector: {matchNames: [a]}, queue: {name: a, key: object}, conditions: Ready}
YAML
`})
	out, status := try(t, c.Kubeconfig, "lint", "--cluster", "-q", dir)
	want := `kinds.sh:5:17: error: binding "moved": the API server knows no kind, plural or short name ` +
		`"Deployment" in "v1": it is served as apps/v1
kinds.sh:6:19: error: binding "unknown": the API server knows no kind, plural or short name "Unheard" in "example.com/v1": is its CRD missing, or is it served in another version?
kinds.sh:10:30: warning: binding "nowhere": namespace "no-such-namespace" does not exist (create it, or correct the name)
kinds.sh:11:118: error: binding "no-status": ConfigMap has no subresource status (add "subresources: {status: {}}" to the version in its CRD)
`
	if got := strings.ReplaceAll(out, dir+"/", ""); status != 1 || got != want {
		t.Errorf("status %d:\n%s", status, got)
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
