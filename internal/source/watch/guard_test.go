package watch

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// A log that blocks does not hold up snapshots: nothing is logged with the lock of the monitor.
func TestLogsWithoutLock(t *testing.T) {
	m, records := newStage(t).binding("b", nil).monitor, 0
	m.log = slog.New(sayer{slog.DiscardHandler, func(r slog.Record) {
		records++
		if !m.mu.TryLock() {
			t.Errorf("%q is logged with the lock held", r.Message)
			return
		}
		m.mu.Unlock()
	}})
	s := &Shelf{m: m}
	for _, with := range []func(func()){s.Update, s.Look} {
		with(func() { s.Log(slog.LevelInfo, "a record") })
	}
	if records != 2 {
		t.Errorf("%d records", records)
	}
}

// fakeGuard admits all objects or none, and has a request in flight until idle is closed.
type fakeGuard struct {
	Guard
	admits bool
	asked  []string
	idle   chan struct{}
}

func (*fakeGuard) Outdated(*stream.Object) bool { return false }
func (g *fakeGuard) Admit(_ *stream.Subscription, o *stream.Object, _ bool) bool {
	g.asked = append(g.asked, o.Key)
	return g.admits
}
func (*fakeGuard) Withdraw(func(string, *stream.Subscription) bool) {}
func (g *fakeGuard) Ended() <-chan struct{}                         { return g.idle }

// A binding ends when the requests of its guard have been answered.
func TestDisableWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, idle := newStage(t).binding("b", nil).monitor, make(chan struct{})
		m.guard = &fakeGuard{idle: idle}
		w := &Watcher{streams: stream.NewPool(nil, nil, nil), bindingSet: bindingSet{monitors: map[address]*monitor{m.address: m}}}
		disabled := make(chan struct{})
		go func() {
			w.Disable(m.hook, 0)
			close(disabled)
		}()
		synctest.Wait()
		select {
		case <-disabled:
			t.Error("disabled while a request is in flight")
		default:
		}
		close(idle)
		<-disabled
	})
}
