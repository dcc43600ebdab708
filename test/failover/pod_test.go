package failover

import (
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

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
