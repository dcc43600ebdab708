package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Two operators in one namespace have the same instance name. The second one removes orphaned finalizers, and has none of the hooks of the
// first. It leaves the finalizers and the record alone while the first runs, and after it was killed; when the first has ended regularly,
// it removes them.
func TestTwoOperatorsWithOneInstanceName(t *testing.T) {
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	finalizer := namespace + ".example.com/files"
	kubeconfig := c.KubeconfigFor(t, c.Kubeconfig, namespace)
	files := t.TempDir()
	hooks := func(name, text string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nset -e\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	first := hooks("files.sh", `if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{name: cm, kind: ConfigMap, labelSelector: {matchLabels: {managed: "yes"}},
    namespace: {nameSelector: {matchNames: [`+namespace+`]}}, finalizer: `+finalizer+`}]}'
  exit
fi
for f in $(jq -r '.[] | select(.watchEvent == "Deleting") | .object.metadata.name' "$BINDING_CONTEXT_PATH"); do rm "`+files+`/$f"; done
for f in $(jq -r '.[] | if .objects then .objects[] else select(.watchEvent == "Added") end |
  .object.metadata.name' "$BINDING_CONTEXT_PATH"); do : >"`+files+`/$f"; done
`)
	second := hooks("sets.sh", `if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
echo '{operation: Sync, set: web, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: of-a-set}}]}' >"$KUBERNETES_PATCH_PATH"
`)
	start := func(dir string, status int, args ...string) *testenv.Operator {
		return testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: kubeconfig, Status: status, Args: args,
			Env: []string{"PATH=" + test.Tools(t) + ":" + os.Getenv("PATH")}})
	}
	remaining := func() string {
		t.Helper()
		return c.Kubectl(t, "-n", namespace, "get", "configmap", "one", "-o", "jsonpath={.metadata.finalizers[*]}") +
			c.Kubectl(t, "-n", namespace, "get", "configmap", "shell-operator-finalizers", "-o", "jsonpath={.data}", "--ignore-not-found")
	}
	const noticed = "Another operator uses the same instance name: finalizers and sets may have their hooks there"
	c.Kubectl(t, "-n", namespace, "create", "configmap", "one")
	c.Kubectl(t, "-n", namespace, "label", "configmap", "one", "managed=yes")

	one := start(first, 0)
	c.Kubectl(t, "-n", namespace, "wait", "configmap/one", "--for=jsonpath={.metadata.finalizers[0]}="+finalizer, "--timeout=60s")
	two := start(second, 0, "--orphan-finalizers=remove")
	one.UntilLog(noticed, "instance", namespace+".shell-operator")
	two.UntilLog(noticed, "instance", namespace+".shell-operator")
	for name, op := range map[string]*testenv.Operator{"first": one, "second": two} {
		out, _ := op.Command("status").CombinedOutput() // its exit status reports the problem
		if !strings.Contains(string(out), `the instance name "`+namespace+`.shell-operator": another operator uses it: process `) {
			t.Errorf("the status of the %s is\n%s", name, out)
		}
	}
	if out, err := two.Command("finalizers", "remove", finalizer).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "another operator may use the instance name") {
		t.Errorf("the second removes a finalizer of the first: %s", out)
	}
	if out, err := one.Command("uninstall", "--kube-config", kubeconfig, "--namespace", namespace).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "uninstall would remove its finalizers, too") {
		t.Errorf("uninstall beside two operators: %v: %s", err, out)
	}
	if left := remaining(); !strings.Contains(left, finalizer) || !strings.Contains(left, "files.sh") {
		t.Fatalf("the second operator has left %s", left)
	}
	// The deletion is not missed.
	c.Kubectl(t, "-n", namespace, "delete", "configmap", "one", "--timeout=60s")
	if _, err := os.Stat(filepath.Join(files, "one")); !os.IsNotExist(err) {
		t.Errorf("the file of the deleted object: %v", err)
	}
	for _, op := range []*testenv.Operator{one, two} {
		if strings.Contains(op.Log(), "has no hook") || strings.Contains(op.Log(), "is removed") {
			t.Errorf("reported or removed:\n%s", op.Log())
		}
	}

	// After a kill the state is unknown at first: the finalizer is reported, and stays.
	c.Kubectl(t, "-n", namespace, "create", "configmap", "one")
	c.Kubectl(t, "-n", namespace, "label", "configmap", "one", "managed=yes")
	c.Kubectl(t, "-n", namespace, "wait", "configmap/one", "--for=jsonpath={.metadata.finalizers[0]}="+finalizer, "--timeout=60s")
	two.Signal(syscall.SIGTERM)
	two.Wait()
	one.Expect(-1)
	one.Signal(syscall.SIGKILL)
	one.Wait()
	two = start(second, 0, "--orphan-finalizers=remove")
	two.UntilLog("A finalizer has no hook any more: its objects cannot be deleted", "finalizer", finalizer)
	if left := remaining(); !strings.Contains(left, finalizer) || !strings.Contains(left, "files.sh") {
		t.Fatalf("after a kill, the second operator has left %s", left)
	}
	two.Signal(syscall.SIGTERM)
	two.Wait()

	// A kill delays no start. An operator that ends removes its heartbeat, so the next one does not wait for it.
	one = start(first, 0)
	one.UntilLog("Hook executed successfully")
	one.Signal(syscall.SIGTERM)
	one.Wait()
	if left := c.Kubectl(t, "-n", namespace, "get", "configmap", "shell-operator-finalizers", "-o",
		"jsonpath={.metadata.annotations}"); strings.Count(left, "shell-operator/operator-") != 1 {
		t.Errorf("heartbeats after the end: %s", left)
	}
}
