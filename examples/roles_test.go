package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// installGenerated is install with Roles that are generated.
func (e *example) installGenerated() {
	e.t.Helper()
	if text, err := os.ReadFile(filepath.Join(e.name, "manifests", "crd.yaml")); err == nil {
		clusterWide.Lock()
		defer clusterWide.Unlock()
		e.input(string(text), "apply", "-f", "-")
		e.input(string(text), "wait", "--for=condition=established", "--timeout=60s", "-f", "-")
	}
	roles := e.applyGenerated("--hooks-dir", filepath.Join(e.name, "hooks"), "--validating-webhook-configuration-name", e.namespace)
	e.cluster.UntilRoles(e.t, "system:serviceaccount:"+e.namespace+":"+e.name, e.namespace, roles)
	e.kubectl("label", "namespace", e.namespace, "example.com/"+e.name+"=enabled") // which webhooks select
	e.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
}

// applyGenerated creates the account of the example with the Roles that rbac --from-tests prints, and returns them.
func (e *example) applyGenerated(args ...string) string {
	t := e.t
	t.Helper()
	cmd := exec.Command(testenv.Binary(t), append([]string{"rbac", "--from-tests", "--namespace", e.namespace,
		"--service-account", e.name, "--name", e.namespace, "--kube-config", e.cluster.Kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+test.Tools(t)+":"+os.Getenv("PATH"), pythonPath(), "WATCH_NAMESPACE="+e.namespace,
		"SOURCE_NAMESPACE="+e.namespace)
	var notes strings.Builder
	cmd.Stderr = &notes
	roles, err := cmd.Output()
	if err != nil || notes.Len() > 0 || strings.Contains(string(roles), "GUESSED") || strings.Contains(string(roles), "INCOMPLETE") {
		t.Fatalf("%v: %s%s", err, notes.String(), roles)
	}
	e.kubectl("create", "serviceaccount", e.name)
	e.cluster.KubectlInput(t, string(roles), "apply", "-f", "-")
	t.Cleanup(func() {
		e.kubectl("delete", "clusterrole,clusterrolebinding", e.namespace, "--ignore-not-found")
		e.kubectl("delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", e.namespace+"-hooks", "--ignore-not-found")
	})
	return string(roles)
}
