package lifecycle

import (
	"context"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
)

// Exhausted describes a task that has no attempt left.
type Exhausted struct {
	Hook *hook.Hook
	// Binding and Queue are as in log records, Key is the key of the lane.
	Binding, Queue, Key string
	Attempts, Contexts  int
	Err                 error
	// Parked: the contexts are kept, otherwise they were dropped.
	Parked bool
	// Object is set if the task is about one object. APIVersion is the apiVersion of its binding, and may be empty.
	Object     *event.Object
	APIVersion string
}

// Exhausted ends a task that has no attempt left. The queue calls it before the task leaves its lane.
func (l *Lifecycle) Exhausted(f queue.Failed) {
	t, ok := f.Task.(Task)
	if !ok {
		return
	}
	e := Exhausted{Hook: t.Hook(), Binding: t.Binding(), Queue: f.Queue, Key: f.Key, Attempts: f.Failures, Err: f.Err}
	for ev := range t.Events() {
		if e.Contexts++; e.Contexts == 1 && ev.Type == event.Change && ev.Object.Name != "" {
			e.Object, e.APIVersion = &ev.Object, ev.Hook.Kubernetes[ev.Index].APIVersion
		} else if e.Object != nil && (ev.Type != event.Change || !sameObject(e.Object, &ev.Object)) {
			e.Object = nil
		}
	}
	e.Parked = t.Exhaust(f.Queue, f.Key, f.Failures, f.Err)
	fate := "dropped"
	if e.Parked {
		fate = "parked"
	}
	l.o.Log.Error("Hook failed. No attempt is left, its contexts are "+fate+".", append(t.LogFields(), "key", f.Key, "attempts", f.Failures,
		"contexts", e.Contexts, "error", f.Err.Error())...)
	if l.o.Exhausted != nil {
		l.o.Exhausted(e)
	}
}

func sameObject(a, b *event.Object) bool {
	return a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name
}

// ObjectGone ends what waits for an object that a binding has no more. It may be called with locks held.
func (l *Lifecycle) ObjectGone(h *hook.Hook, index int, o event.Object) {
	l.o.Pending.Gone(&event.Event{Type: event.Change, Hook: h, Index: index, Object: o})
}

// requeue queues requeues when they are due, and deletions that --max-parked has displaced when there is room.
func (l *Lifecycle) requeue(ctx context.Context) {
	p := l.o.Pending
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for _, ev := range p.Take(time.Now()) {
			l.deliver(ev)
		}
		timer.Stop()
		if at, ok := p.Next(); ok {
			timer.Reset(time.Until(at))
		}
		select {
		case <-timer.C:
		case <-p.Changed():
		case <-ctx.Done():
			return
		}
	}
}

// deliver queues a requeue that is due, or a retried event, unless its object is gone or is being deleted. A requeued deletion comes from
// the watcher, with the object of this moment.
func (l *Lifecycle) deliver(ev event.Event) {
	if ev.Object.UID != "" && !ev.Retried {
		l.o.Objects.DeliverDeletion(ev)
		return
	}
	if ev.Refreshed() && ev.Watch != event.Deleted {
		now, ok := l.o.Objects.Object(ev.Hook, ev.Index, ev.Object.Namespace, ev.Object.Name)
		if !ok {
			return
		}
		ev.Key = now.Key
	}
	l.Queue(ev)
}
