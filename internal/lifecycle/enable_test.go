package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
)

// failing is a Watcher that cannot enable the bindings of the first hook.
type failing struct {
	Watcher
	finalizerWorld // is the Meter
	mu             sync.Mutex
	enabled        map[string]int
}

func (f *failing) Enable(_ context.Context, h *hook.Hook, _ func(int, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.enabled[h.Name]++; h.Name == "fails" {
		return errors.New("it does not compile")
	}
	return nil
}

func (f *failing) Lead() {}

// watcherLifecycle has a Watcher and no hooks.
func watcherLifecycle(t *testing.T, w interface {
	Watcher
	Meter
}) *Lifecycle {
	log := slog.New(slog.DiscardHandler)
	leading := make(chan struct{})
	close(leading)
	return &Lifecycle{inbox: make(chan func()), ended: make(chan struct{}), nudge: make(chan struct{}, 1), ctx: t.Context(), o: Options{
		Queues: queue.NewSet(queue.Options{}), Runner: run.New(run.Options{Log: log}), Pending: pending.New(pending.Options{}),
		Watcher: w, Meter: w, Log: log, Leading: leading,
		Clock:  schedule.New(schedule.Options{}),
		Health: NewHealth(func(*hook.Hook) []string { return nil }),
		Trace:  func(ctx context.Context, _ *hook.Hook) (context.Context, func()) { return ctx, func() {} },
	}}
}

// Bindings that fail for good are enabled once, and later hooks do not wait for them.
func TestFailsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &failing{enabled: map[string]int{}}
		l := watcherLifecycle(t, w)
		kubernetes := []hook.Kubernetes{{Binding: hook.Binding{Name: "b"}, Queue: hook.MainQueue}}
		hooks := []*hook.Hook{{Name: "fails", Kubernetes: kubernetes}, {Name: "works", Kubernetes: kubernetes}}
		l.add(hooks, hooks)
		ctx, cancel := context.WithCancel(t.Context())
		go l.Run(ctx)
		time.Sleep(time.Hour)
		cancel()
		synctest.Wait()
		if w.enabled["fails"] != 1 || l.State(hooks[1]) < Released {
			t.Errorf("enabled %v, the other hook is %s", w.enabled, l.State(hooks[1]))
		}
	})
}

// A panic ends the process: nothing waits for what only the end of the context ends.
func TestPanicEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := watcherLifecycle(t, &failing{enabled: map[string]int{}})
		l.add(nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		recovered := make(chan any, 1)
		go func() {
			defer func() { recovered <- recover() }()
			l.Run(ctx)
		}()
		l.inbox <- func() { panic("broken") }
		synctest.Wait()
		select {
		case got := <-recovered:
			if got != "broken" {
				t.Errorf("the panic is %v", got)
			}
		default:
			t.Error("the panic waits")
		}
		cancel()
	})
}
