package app

import (
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
)

// life is how far a hook has come. The operator's lock guards it.
type life struct {
	// startup tells that the onStartup run has been queued; started is closed when it has succeeded, or there is none.
	startup bool
	started chan struct{}
	// enabled tells that all kubernetes bindings are, released which of them have been handed over to the queues.
	enabled  bool
	released []bool
	// scheduled tells that the schedules are about to be enabled, ticking that they are.
	scheduled, ticking bool
}

func newLife(h *hook.Hook) *life {
	l := &life{started: make(chan struct{}), released: make([]bool, len(h.Kubernetes))}
	if h.OnStartup == nil {
		close(l.started)
	}
	return l
}

// inherit is the life of a hook that goes on as another one.
func (l *life) inherit(old *hook.Hook, next run.Successor) *life {
	h := next.Hook
	now := newLife(h)
	now.scheduled, now.ticking = l.scheduled, l.ticking
	if old.OnStartup != nil && h.OnStartup != nil {
		now.startup, now.started = l.startup, l.started
	}
	kept := 0
	for i := range old.Kubernetes {
		if at, ok := next.Binding(event.Synchronization, i); ok {
			now.released[at] = l.released[i]
			kept++
		}
	}
	now.enabled = l.enabled && kept == len(h.Kubernetes)
	return now
}

// all are the hooks, in order.
func (op *operator) all() []*hook.Hook {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.hooks
}

// with lets f look at the life of a hook, and change it. A hook that has gone has none.
func (op *operator) with(h *hook.Hook, f func(*life)) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if l := op.lives[h]; l != nil {
		f(l)
	}
}

func (op *operator) isTicking(h *hook.Hook) (ticking bool) {
	op.with(h, func(l *life) { ticking = l.ticking })
	return ticking
}

// hookStep is a task that brings a hook further. It follows its hook when that is loaded anew.
type hookStep struct {
	name string
	hook *hook.Hook
	// index is that of a kubernetes binding, or -1.
	index int
	do    func(h *hook.Hook, index int)
}
