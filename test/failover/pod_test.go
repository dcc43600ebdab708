package failover

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// failingHook fails until a file is there, and prints a secret.
const failingHook = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, onStartup: 1}'
  exit
fi
[ -e %s ] && exit
echo "hunter2" >&2
exit 3
`

func failing(t *testing.T) (dir, fixed string) {
	dir, fixed = t.TempDir(), filepath.Join(t.TempDir(), "fixed")
	testenv.Script(t, dir, "hook.sh", fmt.Sprintf(failingHook, fixed))
	return dir, fixed
}

// Without permission for the Lease there is no leader, and the log has the rule; without the permission to watch it, all works.
func TestLeasePermissions(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	dir, fixed := failing(t)
	if err := os.WriteFile(fixed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: dir, Kubeconfig: cluster.UserKubeconfig, Args: []string{"--leader-election", "--namespace", namespace},
	})
	trouble := op.UntilLog("Cannot use the Lease. Will retry after delay.")
	if rule := trouble.Fields["error"]; !strings.Contains(rule, `apiGroups: ["coordination.k8s.io"]`) {
		t.Errorf("the rule is not named: %s", rule)
	}
	status := func() string {
		cmd := op.Command("status")
		text, _ := cmd.CombinedOutput()
		return fmt.Sprintf("%sexit status %d", text, cmd.ProcessState.ExitCode())
	}
	if got := status(); !strings.Contains(got, "- the Lease: ") || !strings.Contains(got, `apiGroups: ["coordination.k8s.io"]`) ||
		!strings.HasSuffix(got, "exit status 1") {
		t.Errorf("status without the permission:\n%s", got)
	}
	op.UntilLog("No permission to watch the Lease")
	cluster.Kubectl(t, "-n", namespace, "create", "role", "lease", "--verb=get,list,create,update", "--resource=leases.coordination.k8s.io")
	cluster.Kubectl(t, "-n", namespace, "create", "rolebinding", "lease", "--role=lease", "--user=alice")
	op.UntilLog("The Lease can be used again")
	if got := status(); strings.Contains(got, "the Lease: ") {
		t.Errorf("status with the permission:\n%s", got)
	}
	op.UntilLog(leads)
	op.UntilLog("Hook executed successfully")
	for _, r := range op.Records() {
		if r.Has("Hook executed successfully") && r.At.Before(trouble.At) {
			t.Error("a hook ran before it was allowed to")
		}
	}
}

// The Leases of shards have names that a Role can list: owners of one division follow owners of another one, and other leaders of
// the namespace are safe.
func TestShardLeasePermissions(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	const resource = "--resource=leases.coordination.k8s.io"
	cluster.Kubectl(t, "-n", namespace, "create", "role", "names", "--verb=get,update,delete", resource,
		"--resource-name=shell-operator", "--resource-name=shell-operator-shard-0", "--resource-name=shell-operator-shard-1")
	cluster.Kubectl(t, "-n", namespace, "create", "role", "all", "--verb=create,list,watch", resource)
	for _, role := range []string{"names", "all"} {
		cluster.Kubectl(t, "-n", namespace, "create", "rolebinding", role, "--role="+role, "--user=alice")
	}
	cluster.UntilAllowed(t, "alice", namespace, "delete", "leases.coordination.k8s.io/shell-operator-shard-1")
	cluster.UntilAllowed(t, "alice", namespace, "list", "leases.coordination.k8s.io")
	for _, by := range []string{"object", "namespace"} {
		dir := testenv.Hooks(t, map[string]string{
			"h.sh": "#!/bin/sh\n[ \"$1\" != --config ] || echo '{configVersion: v1, settings: {shardBy: " + by + "}, onStartup: 1}'\n"})
		var owners []*testenv.Operator
		for range 2 {
			owners = append(owners, testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.UserKubeconfig,
				Args: []string{"--shards", "2", "--namespace", namespace, "--leader-election-lease-duration", "3s", "--kubernetes-events=false"}}))
		}
		for _, op := range owners {
			op.UntilLog("This replica serves a shard")
		}
		for _, op := range owners {
			op.Signal(syscall.SIGTERM)
			op.Wait()
			if strings.Contains(op.Log(), "coordination.k8s.io") { // of the rule in the error
				t.Errorf("a permission is missing:\n%s", op.Log())
			}
		}
	}
	if got, _ := cluster.TryKubectl("", "auth", "can-i", "delete", "leases.coordination.k8s.io/another-leader", "-n", namespace,
		"--as=alice"); !strings.HasPrefix(got, "no") {
		t.Errorf("the Lease of another leader can be deleted: %s", got)
	}
}
