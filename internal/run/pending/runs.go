package pending

import (
	"context"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
)

var (
	_ run.Companion = (*Ledger)(nil)
	_ run.Deferred  = (*Ledger)(nil)
)

// Objects have single objects of kubernetes bindings.
type Objects interface {
	// Object returns a current object as an event would carry it; false if the binding has no such object, or the object is being deleted and
	// has to get nothing but Deleting.
	Object(h *hook.Hook, index int, namespace, name string) (event.Event, bool)
	// Has reports whether the binding has an object, also one that is being deleted.
	Has(h *hook.Hook, index int, namespace, name string) bool
}

// Companions returns the companions of the runs whose events the Ledger keeps. They come behind all that can fail a run. Requeues, parked
// contexts and previous versions are settled before finalizers are released: then the object goes, and its last event has to find them
// current.
func (l *Ledger) Companions() []run.Companion { return []run.Companion{l, versions{l}, releases{l}} }

// Joins implements run.Companion. A request is not delivered again.
func (l *Ledger) Joins(_ *hook.Hook, answers bool) bool { return !answers }

// Done settles the events of a successful run: their requeues, and their older parked contexts.
func (l *Ledger) Done(_ context.Context, a *run.Attempt, outcome error) {
	if outcome != nil || a.Task.Len() == 0 || a.Task.Type() == event.Startup {
		return
	}
	l.mu.Lock()
	delete(l.lost, a.Hook)
	idle := l.idle(a.Hook)
	l.mu.Unlock()
	if idle && a.Result.RequeueAfter.Duration == 0 && len(a.Result.Requeue) == 0 {
		return
	}
	for ev := range a.Task.Events() {
		s := success{run: a.Task.Number()}
		if after := requeueAfter(&ev, a.Result); after > 0 && l.exists(&ev) {
			s.again, s.at = again(ev), l.due(after)
		}
		l.processed(&ev, s)
		if ev.Type != event.Synchronization || ev.Binding().Group != "" {
			continue
		}
		for _, one := range a.Result.Requeue {
			if now, ok := l.o.Objects.Object(ev.Hook, ev.Index, one.Namespace, one.Name); ok {
				l.Requeue(again(now), l.due(one.After.Duration), a.Task.Number())
			}
		}
	}
}

// idle reports whether nothing is kept of a hook, and no list is in flight, so that events that leave change nothing. It requires mu.
func (l *Ledger) idle(h *hook.Hook) bool { return l.rows[h] == nil && l.lists == 0 }

// Refresh reads the object of an event if an attempt has to do so. It returns false for one that is gone or is being deleted, and for a
// retried Deleted of an object that the binding has again: the event leaves its task.
func (l *Ledger) Refresh(ev *event.Event) bool {
	o, ok := ev.Object, true
	switch {
	case !ev.Refreshed():
	case ev.Watch == event.Deleted:
		ok = !l.o.Objects.Has(ev.Hook, ev.Index, o.Namespace, o.Name)
	default:
		var now event.Event
		now, ok = l.o.Objects.Object(ev.Hook, ev.Index, o.Namespace, o.Name)
		ev.Object = now.Object
	}
	if !ok {
		l.Leave(ev, true)
	}
	return ok
}

// Full implements run.Deferred.
func (l *Ledger) Full() bool { return l.o.Full() }

// Replaced implements run.Deferred.
func (l *Ledger) Replaced(ev *event.Event) {
	l.Leave(ev, true)
	l.o.Replaced(ev)
}

// Left implements run.Deferred.
func (l *Ledger) Left(t *run.Task, processed bool) {
	l.mu.Lock()
	idle := l.idle(t.Hook())
	l.mu.Unlock()
	if idle {
		return
	}
	for ev := range t.Events() {
		l.Leave(&ev, processed)
	}
}

// Park implements run.Deferred.
func (l *Ledger) Park(t *run.Task, queue, key string, attempts int, err error) {
	displaced := l.park(ParkedTask{
		ID: t.ID(), Hook: t.Hook(), Queue: queue, Key: key, KeyValue: t.KeyValue(), Attempts: attempts, Error: run.Cause(err),
		GaveUp: run.GaveUp(err) != "", Since: time.Now(),
	}, t.Number(), t.Events())
	for _, ev := range displaced {
		l.awaitRoom(&ev, t.Removed)
	}
	if t.Removed() { // and what it had parked has been dropped in between
		l.Retain(func(h *hook.Hook) bool { return h != t.Hook() })
	}
}

// awaitRoom delivers a deletion again when there is room among the parked contexts.
func (l *Ledger) awaitRoom(ev *event.Event, removed func() bool) {
	again, ok := l.Deletion(ev)
	if !ok {
		return
	}
	l.AwaitRoom(again, time.Now())
	if removed() { // and what waits for it has been dropped in between
		l.Retain(func(h *hook.Hook) bool { return h != ev.Hook })
	}
}

// Deletion returns a deletion that the watcher is to deliver again. If the object has left the selectors since its Deleting, that is
// Deleted, or nothing if Deleted has followed.
func (l *Ledger) Deletion(ev *event.Event) (again event.Event, ok bool) {
	o, watch := ev.Object, ev.Watch
	if watch == event.Deleting {
		switch kept, again := l.o.Finalizers.Keep(*ev); {
		case again:
		case kept || ev.Hook.Kubernetes[ev.Index].Deleted:
			return event.Event{}, false
		default:
			watch = event.Deleted
		}
	}
	return event.Event{Type: ev.Type, Hook: ev.Hook, Index: ev.Index, Watch: watch, Object: event.Object{
		Namespace: o.Namespace, Name: o.Name, Kind: o.Kind, UID: o.UID,
	}}, true
}

// exists reports whether what an event is about can be delivered again.
func (l *Ledger) exists(ev *event.Event) bool {
	if ev.Type != event.Change || ev.Binding().Group != "" {
		return true
	}
	_, ok := l.o.Objects.Object(ev.Hook, ev.Index, ev.Object.Namespace, ev.Object.Name)
	return ok
}

// requeueAfter returns when a context is delivered again; 0 means never.
func requeueAfter(ev *event.Event, result effect.Result) time.Duration {
	if run.IsUnlisted(ev) {
		return 0
	}
	if ev.Type == event.Change && ev.Binding().Group == "" {
		for _, one := range result.Requeue {
			if one.Namespace == ev.Object.Namespace && one.Name == ev.Object.Name {
				return one.After.Duration
			}
		}
	}
	return result.RequeueAfter.Duration
}

// requeueJitter is the largest part by which a delay differs from what the hook has requested, so that requeues spread.
const requeueJitter = 0.05

// due is when something is delivered again after a delay.
func (l *Ledger) due(after time.Duration) time.Time {
	after = time.Duration(float64(after) * (1 - requeueJitter + 2*requeueJitter*l.o.Random()))
	return time.Now().Add(after)
}

// again is an event as it is delivered again.
func again(ev event.Event) event.Event {
	again := event.Event{Type: ev.Type, Hook: ev.Hook, Index: ev.Index, Watch: event.Requeued, Object: event.Object{
		Namespace: ev.Object.Namespace, Name: ev.Object.Name, Kind: ev.Object.Kind,
	}}
	if ev.Watch == event.Deleting {
		again.Watch, again.Object.UID = event.Deleting, ev.Object.UID
	}
	if again.Type == event.Synchronization && ev.Binding().Group != "" {
		again.Type = event.Change // it gets the context of the group
	}
	return again
}
