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

// beginList returns what notes the initial list of a run, if its binding includes previous values; else nil.
func (r *Runner) beginList(t *Task) *pending.SeenList {
	for ev := range t.Events() {
		if ev.Type == event.Synchronization && ev.Binding().Group == "" && ev.Hook.Kubernetes[ev.Index].IncludePrevious {
			return r.opts.Pending.Seen.BeginList(ev.Hook, ev.Index, t.readExtra().run)
		}
	}
	return nil
}

// saw notes what the hook has seen in a run that has succeeded.
func (r *Runner) saw(t *Task, a *attempt) {
	for ev := range t.Events() {
		if includesPrevious(&ev) {
			r.opts.Pending.Seen.Saw(&ev, r.isGone(&ev), t.readExtra().run)
		}
	}
	if a.list == nil {
		return
	}
	for _, list := range a.lists {
		list.Each(func(o event.Object) bool { a.list.Saw(o); return true })
	}
}

// isGone reports whether no later event ends what is kept of an object. A binding without Deleted events does not get one.
func (r *Runner) isGone(ev *event.Event) bool {
	if ev.Watch == event.Deleted {
		return true
	}
	return !ev.Hook.Kubernetes[ev.Index].Deleted && !r.opts.Snapshots.Has(ev.Hook, ev.Index, ev.Object.Namespace, ev.Object.Name)
}
