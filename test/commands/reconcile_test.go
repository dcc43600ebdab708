package commands

import (
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestReconcile runs what init --reconcile writes with exactly the permissions that it writes.
func TestReconcile(t *testing.T) {
	c := testenv.Shared(t)
	own, ns := c.Namespace(t), c.Namespace(t)
	dir := t.TempDir()
	command(t, c.Kubeconfig, "init", filepath.Join(dir, "hooks", "gardens.sh"), "--reconcile", "--kind", "reconcile.example.com/v1/Garden")
	c.Kubectl(t, "apply", "-f", filepath.Join(dir, "manifests"))
	t.Cleanup(func() {
		c.Kubectl(t, "delete", "--wait=false", "crd/gardens.reconcile.example.com", "clusterrole/shell-operator-gardens",
			"clusterrolebinding/shell-operator-gardens")
	})
	c.Kubectl(t, "-n", own, "create", "serviceaccount", "shell-operator")
	c.Kubectl(t, "patch", "clusterrolebinding/shell-operator-gardens", "--type=json",
		"-p", `[{"op": "replace", "path": "/subjects/0/namespace", "value": "`+own+`"}]`)
	user := "system:serviceaccount:" + own + ":shell-operator"
	for _, verb := range []string{"list", "watch", "patch"} {
		c.UntilAllowed(t, user, ns, verb, "gardens.reconcile.example.com")
	}
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: filepath.Join(dir, "hooks"), Kubeconfig: c.KubeconfigOf(t, own, "shell-operator"),
		Args: []string{"--namespace", own, "--kubernetes-events=false"},
	})
	op.UntilLog("Kubernetes bindings for hook are enabled successfully")

	garden := filepath.Join(dir, "hooks", "fixtures", "gardens.yaml")
	c.KubectlInput(t, `{"apiVersion": "reconcile.example.com/v1", "kind": "Garden", "metadata": {"namespace": "`+ns+`", "name": "roses"},
		"spec": {"message": "red"}}`, "create", "-f", "-")
	c.Kubectl(t, "apply", "-f", garden, "--dry-run=server") // the CRD accepts the object of the tests
	c.Kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "--timeout=60s", "gardens/roses")
	c.Kubectl(t, "-n", ns, "wait", "--for=jsonpath={.data.message}=red", "--timeout=60s", "configmap/roses")
	c.Kubectl(t, "-n", ns, "delete", "configmap/roses", "--wait=false")
	c.Kubectl(t, "-n", ns, "wait", "--for=create", "--timeout=60s", "configmap/roses")
	c.Kubectl(t, "-n", ns, "delete", "gardens/roses", "--timeout=60s")
	op.UntilLog("Garden roses: clean up what is outside of the cluster")
	for _, r := range op.Records() {
		if r.Has("forbidden") {
			t.Errorf("a permission is missing: %s", r.Text)
		}
	}
}
