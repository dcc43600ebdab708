package lifecycle

import (
	"slices"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
)

// Denied ends a binding whose objects the account of its hook may not read: what waits, is parked or requeued of it is dropped, as at the
// end of a hook. It returns when that is done, or with the hook. The Watcher must deliver nothing of the binding any more.
func (l *Lifecycle) Denied(h *hook.Hook, index int) {
	l.withLife(h, func(x *life) {
		if x.denied == nil {
			x.denied = map[int]bool{}
		}
		x.denied[index] = true
		l.o.Queues.Edit(func(t queue.Task) bool {
			task, ok := t.(Task)
			return !ok || task.Hook() != h || !task.DropBinding(index)
		})
		l.o.Runner.DropBinding(h, index)
	})
}

// Granted begins a binding that was denied: it has its initial list, which is delivered as at the start of its hook.
func (l *Lifecycle) Granted(h *hook.Hook, index int) {
	l.withLife(h, func(x *life) {
		delete(x.denied, index)
		finalizes := h.Kubernetes[index].Finalizer != ""
		switch {
		case x.state < Enabled && finalizes: // that of the others may be on its way
			x.finalized, x.late = false, x.enabling
			return
		case x.state < Enabled || x.state >= Draining || x.state == Enabled && !finalizes:
			return // as the others, when the hook is released
		case !finalizes:
			l.queueInitial(h, index)
			return
		}
		l.work.Go(func() {
			err := l.o.Watcher.Finalize(x.ctx, h, func(i int, err error) {
				l.o.Log.Error("Cannot add the finalizer of the binding. Will retry after delay.", "hook", h.Name,
					"binding", h.Kubernetes[i].Name, "error", err.Error())
			})
			if err == nil {
				l.post(x.ctx, func() {
					if x.state >= Released && !x.denied[index] {
						l.queueInitial(h, index)
					}
				})
			}
		})
	})
	l.Wake()
}

// withLife lets the owner do something for an active hook, and waits for it.
func (l *Lifecycle) withLife(h *hook.Hook, do func(*life)) {
	at := slices.IndexFunc(l.Hooks(), func(other *hook.Hook) bool { return other == h })
	if at < 0 {
		return
	}
	done := make(chan struct{})
	l.post(l.ctx, func() {
		defer close(done)
		for _, x := range l.lives {
			if x.hook == h {
				do(x)
			}
		}
	})
	select {
	case <-done:
	case <-l.ctx.Done():
	}
}

// Wake lets runs begin that were blocked.
func (l *Lifecycle) Wake() {
	l.o.Queues.Retry(func(_, _ string, head queue.Task) bool {
		t, ok := head.(Task)
		return ok && t.Blocked()
	})
}
