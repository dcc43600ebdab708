package pending

import (
	"context"
	"iter"
	"slices"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
)

// Finalizers keep or remove the finalizers that package source/finalizer adds to objects.
type Finalizers interface {
	// Release removes them after a successful run with these events.
	Release(ctx context.Context, events iter.Seq[event.Event])
	// Keep keeps an object whose clean-up has another step, unless the binding no longer has it. If again, the object is delivered again when
	// the requeue is due.
	Keep(ev event.Event) (kept, again bool)
}

type noFinalizers struct{}

func (noFinalizers) Release(context.Context, iter.Seq[event.Event]) {}
func (noFinalizers) Keep(event.Event) (kept, again bool)            { return true, false }

// releases is the Companion of hooks with finalizers.
type releases struct{ l *Ledger }

// Joins implements run.Companion.
func (releases) Joins(h *hook.Hook, answers bool) bool {
	return !answers && slices.ContainsFunc(h.Kubernetes, func(k hook.Kubernetes) bool { return k.Finalizer != "" })
}

// Done releases the objects whose Deleting, or Deleted, was in a run that succeeded or was allowed to fail, except kept ones.
func (r releases) Done(ctx context.Context, a *run.Attempt, outcome error) {
	if a.Stays(ctx, outcome) {
		return
	}
	kept := r.l.kept(a, outcome)
	r.l.o.Finalizers.Release(ctx, func(yield func(event.Event) bool) {
		for ev := range a.Task.Events() {
			if uid := ev.Object.UID; uid != "" && !kept[uid] && !yield(ev) {
				return
			}
		}
	})
}

// kept sets when Deleting is delivered again of objects whose clean-up has another step, and returns their uids. A run that failed, allowed
// or not, keeps none.
func (l *Ledger) kept(a *run.Attempt, outcome error) map[string]bool {
	if !a.Result.KeepFinalizer || outcome != nil {
		return nil
	}
	kept := map[string]bool{}
	for ev := range a.Task.Events() {
		if ev.Watch == event.Deleted {
			delete(kept, ev.Object.UID) // no event of the object follows
		}
		if ev.Watch != event.Deleting {
			continue
		}
		stays, repeat := l.o.Finalizers.Keep(ev)
		kept[ev.Object.UID] = stays
		if repeat {
			l.Requeue(again(ev), l.due(requeueAfter(&ev, a.Result)), a.Task.Number())
		}
	}
	return kept
}
