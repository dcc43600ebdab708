package commands

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestRunApply checks that run changes the cluster with --apply only.
func TestRunApply(t *testing.T) {
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	dir := testenv.Hooks(t, map[string]string{"make": `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
echo '{"operation": "Create", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "` + ns + `", "name": "made"}}}' >"$KUBERNETES_PATCH_PATH"
kubectl get namespace ` + ns + ` -o name
`})
	made := func() bool {
		return c.Kubectl(t, "-n", ns, "get", "configmap", "made", "--ignore-not-found", "-o", "name") != ""
	}
	for _, test := range []struct {
		args []string
		want string
		made bool
	}{
		{nil, "1 operation, not applied (use --apply)", false},
		{[]string{"--apply", "--dry-run"}, "1 operation, not all of them applied", false},
		{[]string{"--apply"}, "1 operation, applied", true},
	} {
		out := command(t, c.Kubeconfig, append([]string{"run", "make", "--hooks-dir", dir}, test.args...)...)
		if !strings.Contains(out, test.want) || !strings.Contains(out, "stdout | namespace/"+ns) {
			t.Errorf("%q printed\n%s", test.args, out)
		}
		if made() != test.made {
			t.Errorf("%q: is the ConfigMap there? %v", test.args, made())
		}
	}
}
