package failover

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// leaseDuration is one that a busy machine can keep, and that runs out soon.
const leaseDuration = 10 * time.Second

// sent are the requests of a replica by which something is changed that is not its Lease, with the time of the last
// renewal of the Lease in front of each.
func sent(g *testenv.Gateway) (changes []testenv.Change, renewed []time.Time) {
	var last time.Time
	for _, c := range g.Changes() {
		switch lease := strings.Contains(c.Path, "/leases"); {
		case lease && c.Status/100 == 2:
			last = c.At
		case !lease:
			changes, renewed = append(changes, c), append(renewed, last)
		}
	}
	return changes, renewed
}

// The leader is stopped for longer than its Lease while it sends changes: none comes when the Lease has run out, nor after the first one of
// the new leader. test/chaos has the changes that hooks receive meanwhile.
func TestStoppedLeader(t *testing.T) {
	s := newStage(t, "")
	testenv.Script(t, s.hooks, "hook.sh", testenv.Testdata(t, "changing.sh", "$NS", s.namespace, "$DIR", s.dir))
	short := []string{"--leader-election-lease-duration", leaseDuration.String(), "--object-patcher-kube-client-qps", "40",
		"--object-patcher-kube-client-burst", "1"}
	gatewayA, kubeconfigA := testenv.NewGateway(t, s.cluster.Kubeconfig, 1)
	gatewayB, kubeconfigB := testenv.NewGateway(t, s.cluster.Kubeconfig, 2)
	a := s.start("a", kubeconfigA, short...)
	a.UntilLog("Hook executed successfully")
	b := s.start("b", kubeconfigB, short...)
	b.UntilLog("Another replica runs the hooks", "leader", "a")

	// When it continues, many changes are due.
	many := filepath.Join(s.dir, "many")
	if err := os.WriteFile(many, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	gatewayA.Until(t, "the first of many changes", func(c testenv.Change) bool { return strings.Contains(c.Path, "/many-") })
	a.Expect(1)
	a.Signal(syscall.SIGSTOP)
	stopped := time.Now()
	if err := os.Remove(many); err != nil {
		t.Fatal(err)
	}
	took := b.UntilLog(leads).At.Sub(stopped)
	t.Logf("the next leader began after %s, with a Lease of %s", took.Round(time.Millisecond), leaseDuration)
	if took > 2*leaseDuration {
		t.Errorf("the next leader began after %s", took)
	}
	b.UntilLog("Hook executed successfully")
	a.Signal(syscall.SIGCONT)
	if status := a.Wait(); status != 1 {
		t.Errorf("status %d", status)
	}
	if text := a.Errors.String(); !strings.Contains(text, "the Lease is lost") {
		t.Errorf("it said %q", text)
	}
	b.Signal(syscall.SIGTERM)
	b.Wait()
	checkSent(t, gatewayA, gatewayB)
}

// checkSent checks the requests of an old leader and of the one after it.
func checkSent(t *testing.T, old, next *testenv.Gateway) {
	t.Helper()
	before, renewed := sent(old)
	after, _ := sent(next)
	if len(before) == 0 || len(after) == 0 {
		t.Fatalf("the first leader sent %d changes, the second one %d", len(before), len(after))
	}
	for i, c := range before {
		if late := c.At.Sub(renewed[i]); late > leaseDuration { // sent before the deadline, and the way here takes a moment
			t.Errorf("%s %s came %s after the last renewal of the Lease", c.Method, c.Path, late)
		}
	}
	if last := before[len(before)-1]; last.At.After(after[0].At) {
		t.Errorf("%s %s of the old leader came %s after the first change of the next one", last.Method, last.Path, last.At.Sub(after[0].At))
	}
	t.Logf("the first leader sent %d changes, the second one %d, the first of them %s after the last of the other",
		len(before), len(after), after[0].At.Sub(before[len(before)-1].At).Round(time.Millisecond))
}
