package run

import (
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/run/pending"
)

// includesPrevious reports whether the context of an event has what the hook has seen before.
func includesPrevious(ev *event.Event) bool {
	return ev.Type == event.Change && ev.Hook.Kubernetes[ev.Index].IncludePrevious
}

// seenInRun is what the hook will have seen of objects at a context of a run: earlier in the run, else in a run that has succeeded.
type seenInRun struct {
	seen    *pending.Seen
	earlier map[pending.Subject]*event.Object
}

// before returns what the hook has seen before this event, or nil, and notes the event.
func (s *seenInRun) before(ev *event.Event) *event.Object {
	if !includesPrevious(ev) {
		return nil
	}
	of := pending.SubjectOf(ev)
	previous := s.earlier[of]
	if last, ok := s.seen.Last(ev); previous == nil && ok {
		previous = &last
	}
	if s.earlier == nil {
		s.earlier = map[pending.Subject]*event.Object{}
	}
	current := ev.Object
	s.earlier[of] = &current
	return previous
}

// saw notes what the hook has seen in a run that has succeeded.
func (r *Runner) saw(t *Task, lists []event.Snapshot) {
	p := r.opts.Pending
	for ev := range t.Events() {
		switch {
		case includesPrevious(&ev):
			p.Seen.Saw(&ev, r.isGone(&ev))
		case ev.Type == event.Synchronization && ev.Binding().Group == "" && ev.Hook.Kubernetes[ev.Index].IncludePrevious:
			for _, list := range lists {
				list.Each(func(o event.Object) bool {
					p.Seen.Saw(&event.Event{Type: event.Change, Hook: ev.Hook, Index: ev.Index, Object: o}, false)
					return true
				})
			}
		}
	}
}

// isGone reports whether no later event ends what is kept of an object. A binding without Deleted events does not get one.
func (r *Runner) isGone(ev *event.Event) bool {
	if ev.Watch == event.Deleted {
		return true
	}
	return !ev.Hook.Kubernetes[ev.Index].Deleted && !r.opts.Snapshots.Has(ev.Hook, ev.Index, ev.Object.Namespace, ev.Object.Name)
}
