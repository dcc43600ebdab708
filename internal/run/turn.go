package run

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// turns keep the order of operations of parallel runs: those on one object are sent in the order in which the processes of the runs ended.
// Runs of different hooks have no order.
type turns struct {
	mu sync.Mutex
	// of are the turns of each hook that have not ended, in order.
	of map[*hook.Hook][]*Turn
}

// Turn orders a run among the runs of its hook. A nil Turn waits for nothing.
type Turn struct {
	turns *turns
	hook  *hook.Hook
	// objects are what the run's operations change. They are set when known is closed; ended is closed after the operations.
	objects      iter.Seq[string]
	known, ended chan struct{}
	once         sync.Once
}

// take returns the turn of a run whose process has ended.
func (t *turns) take(h *hook.Hook) *Turn {
	turn := &Turn{turns: t, hook: h, known: make(chan struct{}), ended: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[*hook.Hook][]*Turn{}
	}
	t.of[h] = append(t.of[h], turn)
	return turn
}

// Wait blocks until all runs whose processes ended earlier are done with these objects. It is called once.
func (t *Turn) Wait(ctx context.Context, objects iter.Seq[string]) error {
	if t == nil {
		return ctx.Err()
	}
	t.turns.mu.Lock()
	all := t.turns.of[t.hook]
	earlier := slices.Clone(all[:slices.Index(all, t)])
	t.turns.mu.Unlock()
	t.objects = objects
	t.once.Do(func() { close(t.known) })
	if len(earlier) == 0 {
		return ctx.Err()
	}
	mine := map[string]bool{}
	for o := range objects {
		mine[o] = true
	}
	for _, other := range earlier {
		if err := other.wait(ctx, mine); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// wait blocks until the run is done with all of the objects.
func (t *Turn) wait(ctx context.Context, objects map[string]bool) error {
	select {
	case <-t.known:
	case <-ctx.Done():
		return ctx.Err()
	}
	if t.objects == nil {
		return nil
	}
	for o := range t.objects {
		if objects[o] {
			select {
			case <-t.ended:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
	}
	return nil
}

// end ends the turn, whether it has waited or not.
func (t *Turn) end() {
	if t == nil {
		return
	}
	t.once.Do(func() { close(t.known) })
	close(t.ended)
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	left := slices.DeleteFunc(t.turns.of[t.hook], func(other *Turn) bool { return other == t })
	if t.turns.of[t.hook] = left; len(left) == 0 {
		delete(t.turns.of, t.hook)
	}
}
