package pending

import (
	"context"
	"slices"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
)

// versions is the Companion of hooks with includePrevious.
type versions struct{ l *Ledger }

// Joins implements run.Companion.
func (versions) Joins(h *hook.Hook, answers bool) bool {
	return !answers && slices.ContainsFunc(h.Kubernetes, func(k hook.Kubernetes) bool { return k.IncludePrevious })
}

// Begin gives the run the versions that the hook has processed before.
func (v versions) Begin(ctx context.Context, a *run.Attempt) context.Context {
	a.Previous = func() func(event.Event) *event.Object { return (&previousInRun{of: v.l}).before }
	if listsPrevious(a.Task) {
		v.l.beginList(a.Task.Number())
	}
	return ctx
}

// Done keeps the versions that a successful run has processed.
func (v versions) Done(_ context.Context, a *run.Attempt, outcome error) {
	if listsPrevious(a.Task) {
		defer v.l.endList()
	}
	if outcome != nil {
		return
	}
	for ev := range a.Task.Events() {
		if hasPrevious(&ev) {
			v.l.seen(&ev, a.Task.Number(), v.l.isGone(&ev))
		} else if isPreviousList(&ev) {
			for _, list := range a.Lists {
				for o := range list.Each {
					v.l.Listed(&event.Event{Type: event.Change, Hook: ev.Hook, Index: ev.Index, Object: o}, a.Task.Number())
				}
			}
		}
	}
}

// isPreviousList reports whether an event is a Synchronization whose objects become previous versions.
func isPreviousList(ev *event.Event) bool {
	return ev.Type == event.Synchronization && ev.Binding().Group == "" && ev.Hook.Kubernetes[ev.Index].IncludePrevious
}

// listsPrevious reports whether a task has one.
func listsPrevious(t *run.Task) bool {
	if t.Type() != event.Synchronization {
		return false
	}
	for ev := range t.Events() {
		if isPreviousList(&ev) {
			return true
		}
	}
	return false
}

// isGone reports whether no later event ends what is kept of an object. A binding without Deleted events does not get one.
func (l *Ledger) isGone(ev *event.Event) bool {
	if ev.Watch == event.Deleted {
		return true
	}
	return !ev.Hook.Kubernetes[ev.Index].Deleted && !l.o.Objects.Has(ev.Hook, ev.Index, ev.Object.Namespace, ev.Object.Name)
}

// seen replaces the version of an event's object, which the run-th run has processed.
func (l *Ledger) seen(ev *event.Event, run uint64, gone bool) {
	now := versionOf(ev.Object, run)
	l.edit(SubjectOf(ev), func(r *row) {
		if gone || now == nil {
			l.forget(r, run)
		} else {
			l.keep(r, now)
		}
	})
}

// version is an object as a hook has processed it last, in the run-th run. Only bindings with IncludePrevious have any. The texts
// are shared with the snapshot of the binding as long as the object does not change.
type version struct {
	object event.Object
	run    uint64
	// gone: it is kept only for the lists in flight.
	gone bool
}

// hasPrevious reports whether the context of an event has the version that the hook has processed before.
func hasPrevious(ev *event.Event) bool {
	return ev.Type == event.Change && ev.Hook.Kubernetes[ev.Index].IncludePrevious
}

// versionOf returns an object whose payloads do not count as waiting; nil if they cannot be read.
func versionOf(o event.Object, run uint64) *version {
	var err error
	for _, p := range []*event.Payload{&o.Full, &o.Filtered} {
		if *p != nil && err == nil {
			var text []byte
			text, err = (*p).Bytes()
			*p = event.Memory(text)
		}
	}
	if err != nil {
		return nil
	}
	return &version{object: o, run: run}
}

// Last returns the object of an event as the hook has processed it last.
func (l *Ledger) Last(ev *event.Event) (event.Object, bool) {
	r := l.read(ev)
	if r.previous == nil || r.previous.gone {
		return event.Object{}, false
	}
	return r.previous.object, true
}

// beginList is called before the run-th run gets an initial list that becomes previous versions, endList at its end. Runs that began later
// may end earlier.
func (l *Ledger) beginList(run uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists++
	l.listed = max(l.listed, run)
}

// endList ends what beginList began.
func (l *Ledger) endList() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lists--; l.lists > 0 {
		return
	}
	for s, r := range l.all() {
		if r.previous != nil && r.previous.gone {
			r.previous = nil
			l.put(s, r)
		}
	}
}

// Listed keeps an object of the initial list that the run-th run has got, unless the hook has processed it later, or it has ended. The
// event has its binding and the object.
func (l *Ledger) Listed(ev *event.Event, run uint64) {
	now := versionOf(ev.Object, run)
	l.edit(SubjectOf(ev), func(r *row) {
		if r.previous == nil || r.previous.run <= run {
			l.keep(r, now)
		}
	})
}

// keep replaces the version of a row. An object that is gone has none, but for the lists in flight.
func (l *Ledger) keep(r *row, now *version) {
	if now != nil && r.previous != nil {
		now.run = max(now.run, r.previous.run)
	}
	if r.previous = now; now != nil && now.gone && l.lists == 0 {
		r.previous = nil
	}
}

// forget drops the version of an object that is gone after the run-th run.
func (l *Ledger) forget(r *row, run uint64) { l.keep(r, &version{run: run, gone: true}) }

// Gone ends the requeue of an object that a binding no longer has, and drops its version unless a Deleted event follows. The event has
// both.
func (l *Ledger) Gone(ev *event.Event) {
	b := &ev.Hook.Kubernetes[ev.Index]
	l.edit(SubjectOf(ev), func(r *row) {
		if b.Group == "" {
			l.unqueue(r)
		}
		if b.IncludePrevious && !b.Deleted {
			l.forget(r, l.listed+1)
		}
	})
}

// previousInRun has the versions of objects that the hook has processed before a context of a run: earlier in the run, else in a run that
// has succeeded.
type previousInRun struct {
	of      *Ledger
	earlier map[Subject]*event.Object
}

// before returns the version that the hook has processed before this event, or nil, and notes the event.
func (s *previousInRun) before(ev event.Event) *event.Object {
	if !hasPrevious(&ev) {
		return nil
	}
	of := SubjectOf(&ev)
	previous := s.earlier[of]
	if last, ok := s.of.Last(&ev); previous == nil && ok {
		previous = &last
	}
	if s.earlier == nil {
		s.earlier = map[Subject]*event.Object{}
	}
	current := ev.Object
	s.earlier[of] = &current
	return previous
}
