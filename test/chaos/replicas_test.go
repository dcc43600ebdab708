package chaos

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Two operators with leader election, and what happens to the leader. No watch breaks, so each leader has to deliver
// every change to its hooks from its Synchronization on.
var partings = []struct {
	name   string
	signal os.Signal
	// status is the exit status.
	status int
}{
	{"leader-terminated", terminate, 0},
	{"leader-killed", syscall.SIGKILL, -1},
	{"leader-stopped", syscall.SIGSTOP, 1},
}

const leads = "This replica runs the hooks"

// elect starts one of the two. The Lease is long enough for a busy machine to renew it.
func (w *world) elect() (*testenv.Operator, start) {
	w.t.Helper()
	s := start{name: fmt.Sprint(len(w.starts) + 1), at: time.Now()}
	return w.run(s, []string{"POD_NAME=" + s.name}, "--kubernetes-events=false",
		"--leader-election", "--namespace", w.mirrors, "--leader-election-lease-duration", "12s",
	), s
}

// launchTwo starts an operator that leads, and then a standby.
func (w *world) launchTwo() {
	w.t.Helper()
	op, s := w.elect()
	w.op, w.starts = op, append(w.starts, s)
	w.op.UntilLog(leads)
	w.launchStandby()
}

// launchStandby starts one more; the leader stays the last of the starts.
func (w *world) launchStandby() {
	w.t.Helper()
	op, s := w.elect()
	w.standby, w.starts = op, slices.Insert(w.starts, len(w.starts)-1, s)
	w.standby.UntilLog("Another replica runs the hooks", "leader", w.starts[len(w.starts)-1].name)
}

// leave ends the leader, and returns a function that waits for the other one to lead. A leader that was only stopped
// continues then, and ends. Another operator is a standby afterwards.
func (w *world) leave(signal os.Signal, status int) (next func()) {
	w.t.Helper()
	old := w.op
	old.Expect(status)
	old.Signal(signal)
	sent := time.Now()
	last := len(w.starts) - 1
	w.starts[last-1], w.starts[last] = w.starts[last], w.starts[last-1]
	w.op, w.standby = w.standby, nil
	return func() {
		w.t.Helper()
		took := w.op.UntilLog(leads).At.Sub(sent)
		w.t.Logf("the next leader began after %s", took.Round(time.Millisecond))
		if signal == syscall.SIGSTOP {
			old.Signal(syscall.SIGCONT)
		}
		if got := old.Wait(); got != status {
			w.t.Errorf("the old leader ended with status %d, not %d", got, status)
		}
		w.launchStandby()
	}
}

// Leaders come and go, while they start, list, run hooks: wherever they are.
func TestReplicas(t *testing.T) {
	const name = "leaders-come-and-go"
	wanted(t, name)
	together(t)
	w := newWorld(t, testenv.Shared(t), seed()*1000+310, true, hooksFor()...)
	defer w.judge(name, time.Now())
	w.beginWith(w.launchTwo)
	w.hide(func() {
		for range 4 {
			for _, i := range w.random.Perm(len(partings)) {
				w.leave(partings[i].signal, partings[i].status)()
				time.Sleep(time.Duration(w.random.IntN(1500)) * time.Millisecond)
			}
		}
	})
}
