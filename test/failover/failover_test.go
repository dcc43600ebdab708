// Package failover runs two operators with leader election, and takes one of them away in several manners.
package failover

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/scripts"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// stage is where the operators play.
type stage struct {
	t         *testing.T
	cluster   *testenv.Cluster
	namespace string
	// dir has the hook's files: runs, received, ticks.
	dir, hooks string
}

func newStage(t *testing.T, slow string) *stage {
	s := &stage{t: t, cluster: testenv.Shared(t), dir: t.TempDir(), hooks: t.TempDir()}
	s.namespace = s.cluster.Namespace(t)
	// The controllers make this one at some time; later it would be one more object.
	s.cluster.Kubectl(t, "-n", s.namespace, "wait", "--for=create", "configmap/kube-root-ca.crt", "--timeout=60s")
	testenv.Script(t, s.hooks, "hook.sh", testenv.Testdata(t, "lines.sh", "$NS", s.namespace, "$DIR", s.dir, "$SLOW", slow))
	return s
}

func (s *stage) start(name, kubeconfig string, args ...string) *testenv.Operator {
	return testenv.Start(s.t, testenv.OperatorOptions{
		HooksDir: s.hooks, Kubeconfig: kubeconfig, Env: []string{"POD_NAME=" + name},
		Args: append([]string{"--leader-election", "--namespace", s.namespace}, args...),
	})
}

func (s *stage) create(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.cluster.Kubectl(s.t, "-n", s.namespace, "create", "configmap", name)
	}
}

func (s *stage) lines(file string) []string {
	text, err := os.ReadFile(filepath.Join(s.dir, file))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return strings.Fields(strings.ReplaceAll(string(text), " ", "-"))
}

// onePerTime checks that a run started only after the one before had ended.
func (s *stage) onePerTime() {
	s.t.Helper()
	running := ""
	for _, line := range s.lines("runs") {
		what, who, _ := strings.Cut(line, "-")
		switch {
		case what == "start" && running != "":
			s.t.Errorf("a run of %s began while one of %s ran", who, running)
		case what == "start":
			running = who
		case who != running:
			s.t.Errorf("a run of %s ended while one of %s ran", who, running)
		default:
			running = ""
		}
	}
}

var leaderMetric = regexp.MustCompile(`(?m)^shell_operator_leader (\d)$`)

const leads = "This replica runs the hooks"

func synchronized(op *testenv.Operator) { op.UntilLog("Unlock kubernetes.Event tasks") }

// startBoth starts a leader, and then a standby with complete snapshots. A standby that waited for the end of the Lease would exceed the
// patience of tests.
func (s *stage) startBoth() (leader, standby *testenv.Operator) {
	s.t.Helper()
	leader = s.start("a", s.cluster.Kubeconfig, "--leader-election-lease-duration", "1h")
	synchronized(leader)
	standby = s.start("b", s.cluster.Kubeconfig, "--leader-election-lease-duration", "1h")
	standby.UntilLog("Another replica runs the hooks", "leader", "a")
	standby.UntilLog("Kubernetes bindings for hook are enabled successfully")
	return leader, standby
}

// The leader gets SIGTERM while a hook runs and objects are created. The hook finishes, the standby leads immediately and
// delivers the objects that the leader could not.
func TestSIGTERM(t *testing.T) {
	s := newStage(t, "1")
	a, b := s.startBoth()

	const why = `hook.sh: standby
- the leader "a" runs the hooks; this replica is a standby
  run this there: shell-operator why hook.sh
last run: none since the operator started, or no longer remembered
`
	if got := b.Ask("why", "hook.sh"); got != why {
		t.Errorf("why says, on the standby:\n%s", got)
	}
	if notes := b.Page("/readyz"); !strings.HasPrefix(notes, "ok\nstandby: \"a\" runs the hooks\n") {
		t.Errorf("the standby's notes are %q", notes)
	}
	if notes := a.Page("/readyz"); !strings.HasPrefix(notes, "ok\nleader: ") {
		t.Errorf("the leader's notes are %q", notes)
	}
	for op, want := range map[*testenv.Operator]string{a: "1", b: "0"} {
		if m := leaderMetric.FindStringSubmatch(op.Page("/metrics")); m == nil || m[1] != want {
			t.Errorf("the metric says %v, want %s", m, want)
		}
	}

	s.create("one", "two", "slow")
	a.UntilLog("slow run")
	a.Signal(syscall.SIGTERM)
	signalled := time.Now()
	s.create("while-ending")
	began := b.UntilLog(leads).At
	synchronized(b)
	done := a.UntilLog("The Lease is given back").At
	t.Logf("from SIGTERM to the next leader: %s, of which the running hook took most; after its end: %s",
		began.Sub(signalled).Round(time.Millisecond), began.Sub(done).Round(time.Millisecond))
	if gap := began.Sub(done); gap > leaseDuration/2 {
		t.Errorf("the next leader began %s after the Lease was given back", gap)
	}
	if status := a.Wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	s.create("last")
	b.Until("the last object", func([]testenv.Record) bool { return strings.Contains(strings.Join(s.lines("received"), " "), "last") })
	all := " " + strings.Join(s.lines("received"), " ") + " "
	for _, name := range []string{"one", "two", "slow", "while-ending", "last"} {
		if !strings.Contains(all, " "+name+" ") {
			t.Errorf("no hook received %q: %s", name, all)
		}
	}
	s.onePerTime()
	if hooks := strings.Join(s.lines("runs"), " "); !strings.Contains(hooks, "start-a") || !strings.Contains(hooks, "start-b") {
		t.Errorf("not both have run hooks: %s", hooks)
	}
}

// TestScripts runs the scripts in testdata.
func TestScripts(t *testing.T) { scripts.Run(t, scripts.Options{Dir: "testdata"}) }
