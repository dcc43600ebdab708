package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/shard"
)

// enabled is a Watcher that notes which hooks are enabled. An initial list takes a minute.
type enabled struct {
	Watcher
	finalizerWorld // is the Meter
	mu             sync.Mutex
	names          []string
}

func (e *enabled) Enable(ctx context.Context, h *hook.Hook, _ func(int, error)) error {
	e.mu.Lock()
	e.names = append(e.names, h.Name)
	e.mu.Unlock()
	select {
	case <-time.After(time.Minute):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *enabled) Lead() {}

// A replica enables what requests need while it waits for a shard, and the rest when it has one, also if that is while the first lists are
// made. Hooks that run on another shard get no further.
func TestHooksOfAShard(t *testing.T) {
	for _, test := range []struct {
		takenAfter time.Duration
		index      int
		want       string
	}{
		{time.Hour, 0, "divided:Released single:Released"},
		{time.Hour, 2, "divided:Released single:Loaded"},
		{30 * time.Second, 2, "divided:Released single:Loaded"},
		{0, 1, "divided:Released single:Loaded"},
	} {
		t.Run(fmt.Sprintf("shard %d after %s", test.index, test.takenAfter), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, taken, leading := &enabled{}, make(chan struct{}), make(chan struct{})
				l := watcherLifecycle(t, w)
				l.o.Leading, l.o.Taken, l.o.Standby = leading, taken, true
				l.o.Shard = func() shard.Shard { return shard.Shard{Index: test.index, Count: 3} }
				health := l.o.Health
				single := &hook.Hook{Name: "single", HTTP: []hook.HTTP{{Binding: hook.Binding{Includes: []int{0}}}},
					Kubernetes: []hook.Kubernetes{{Queue: "a", Initial: hook.InitialNone}}, Schedules: []hook.Schedule{{Queue: "a"}}}
				divided := &hook.Hook{Name: "divided", HTTP: []hook.HTTP{{Binding: hook.Binding{Includes: []int{0}}}},
					Kubernetes: []hook.Kubernetes{{Queue: "b", Initial: hook.InitialNone}},
					Schedules:  []hook.Schedule{{Queue: "b"}}, Settings: hook.Settings{ShardBy: shard.ByObject}}
				if test.index != 0 { // nothing executes it
					single.OnStartup = new(int)
				}
				plain := &hook.Hook{Name: "plain", Kubernetes: []hook.Kubernetes{{Queue: "a", Initial: hook.InitialNone}}}
				hooks := []*hook.Hook{single, divided, plain}
				l.add(hooks, hooks)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go l.Run(ctx)
				time.Sleep(test.takenAfter)
				synctest.Wait()
				if test.takenAfter == time.Hour {
					if got := strings.Join(slices.Sorted(slices.Values(w.names)), " "); got != "divided single" {
						t.Errorf("the standby has enabled %s", got)
					}
				}
				close(taken)
				time.Sleep(time.Hour)
				synctest.Wait()
				runsHere := []string{"divided"}
				if test.index == 0 {
					runsHere = append(runsHere, "single", "plain")
				}
				want := strings.Join(slices.Sorted(slices.Values(append(runsHere, "divided", "single"))), " ")
				if got := strings.Join(slices.Sorted(slices.Values(w.names)), " "); got != want && test.takenAfter > 0 {
					t.Errorf("with a shard, %s have been enabled, want %s", got, want)
				}
				close(leading)
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := fmt.Sprintf("divided:%s single:%s", l.State(divided), l.State(single)); got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
				if why := health.Waiting(plain); why != "" {
					t.Errorf("the hook that only runs need waits: %s", why)
				}
				if !l.StartupDone() || !answers(health, single) || !answers(health, divided) {
					t.Errorf("startup done %t, answers %t %t", l.StartupDone(), answers(health, single), answers(health, divided))
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}
