package failover

import (
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// A hook that breaks changes nothing: the reload is rejected, the shards keep their owners and their division. A replica that starts
// meanwhile ends with the name of the hook, and serves its shard again when the hook is repaired.
func TestBrokenHookKeepsTheDivision(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	namespace, hooks := cluster.Namespace(t), t.TempDir()
	const divides = "#!/bin/sh\n" + `[ "$1" != --config ] || ` +
		`echo '{configVersion: v1, settings: {shardBy: object}, kubernetes: [{kind: Secret, ` +
		`labelSelector: {matchLabels: {shards: never}}}]}'`
	testenv.Script(t, hooks, "good.sh", divides)
	testenv.Script(t, hooks, "flaky.sh", divides)
	const serves = "This replica serves a shard"
	start := func(name string) *testenv.Operator {
		return testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.Kubeconfig, Env: []string{"POD_NAME=" + name},
			Args: []string{"--namespace", namespace, "--kubernetes-events=false", "--shards", "2", "--watch-hooks",
				"--leader-election-lease-duration", "10s"}})
	}
	stays, ends := start("stays"), start("ends")
	served := ends.UntilLog(serves).Fields
	division := stays.UntilLog(serves).Fields["division"]
	testenv.Script(t, hooks, "flaky.sh", "#!/bin/sh\nexit 1\n")
	for _, op := range []*testenv.Operator{stays, ends} {
		op.UntilLog("Reload rejected, the previous hooks stay active")
	}
	ends.Expect(-1)
	ends.Signal(syscall.SIGKILL)
	ends.Wait()
	broken := start("broken")
	broken.Expect(1)
	if status := broken.Wait(); status != 1 || !strings.Contains(broken.Errors.String(), `cannot load hooks: hook "flaky.sh"`) {
		t.Errorf("a start with the broken hook ended with status %d: %s", status, broken.Errors.String())
	}
	testenv.Script(t, hooks, "flaky.sh", divides)
	again := start("again").UntilLog(serves).Fields
	if again["division"] != division || again["shard"] != served["shard"] {
		t.Errorf("it serves %v, not shard %s of division %s", again, served["shard"], division)
	}
	for _, r := range stays.Records() {
		if r.Has(serves) && r.Fields["division"] != division || strings.HasPrefix(r.Fields["msg"], "shutdown") {
			t.Errorf("the other replica: %s", r.Text)
		}
	}
}
