package finalizer

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// immediate is a queue of requests without a goroutine. One that has failed is not repeated, the finalizer is regained without a delay.
type immediate struct {
	*workqueue.Typed[finalizerChange]
}

func (immediate) AddRateLimited(finalizerChange)  {}
func (immediate) Forget(finalizerChange)          {}
func (immediate) NumRequeues(finalizerChange) int { return 0 }

func (q immediate) AddAfter(r finalizerChange, delay time.Duration) {
	if delay == 0 || delay == regainDelay {
		q.Add(r)
	}
}

// Settle sends the requests that are due, for a simulation. The first call closes the gate.
func (g *gate) Settle(ctx context.Context) {
	if g.todo == nil {
		g.close(immediate{workqueue.NewTyped[finalizerChange]()})
	}
	for g.todo.Len() > 0 {
		r, _ := g.todo.Get()
		g.transmit(ctx, r)
		g.todo.Done(r)
	}
}

// DeliverDeleting delivers the next Deleting of an object to all bindings of a hook that have kept its finalizer.
func (f *Finalizers) DeliverDeleting(h *hook.Hook, o event.Object) {
	for i := range h.Kubernetes {
		f.DeliverDeletion(event.Event{Hook: h, Index: i, Watch: event.Deleting, Object: o})
	}
}
