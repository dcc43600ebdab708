package run

import (
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/run/pending"
)

// includesPrevious reports whether the context of an event has the version that the hook has processed before.
func includesPrevious(ev *event.Event) bool {
	return ev.Type == event.Change && ev.Hook.Kubernetes[ev.Index].IncludePrevious
}

// previousInRun has the versions of objects that the hook has processed before a context of a run: earlier in the run, else in a run that
// has succeeded.
type previousInRun struct {
	of      *pending.Previous
	earlier map[pending.Subject]*event.Object
}

// before returns the version that the hook has processed before this event, or nil, and notes the event.
func (s *previousInRun) before(ev *event.Event) *event.Object {
	if !includesPrevious(ev) {
		return nil
	}
	of := pending.SubjectOf(ev)
	previous := s.earlier[of]
	if last, ok := s.of.Last(ev); previous == nil && ok {
		previous = &last
	}
	if s.earlier == nil {
		s.earlier = map[pending.Subject]*event.Object{}
	}
	current := ev.Object
	s.earlier[of] = &current
	return previous
}

// beginList returns what remembers the initial list of a run, if its binding includes previous values; else nil.
func (r *Runner) beginList(t *Task) *pending.PreviousList {
	for ev := range t.Events() {
		if ev.Type == event.Synchronization && ev.Binding().Group == "" && ev.Hook.Kubernetes[ev.Index].IncludePrevious {
			return r.opts.Pending.Previous.BeginList(ev.Hook, ev.Index, t.readExtra().run)
		}
	}
	return nil
}

// remember keeps the versions of objects that the hook has processed in a run that has succeeded.
func (r *Runner) remember(t *Task, a *attempt) {
	for ev := range t.Events() {
		if includesPrevious(&ev) {
			r.opts.Pending.Previous.Remember(&ev, r.isGone(&ev), t.readExtra().run)
		}
	}
	if a.list == nil {
		return
	}
	for _, list := range a.lists {
		list.Each(func(o event.Object) bool { a.list.Remember(o); return true })
	}
}

// isGone reports whether no later event ends what is kept of an object. A binding without Deleted events does not get one.
func (r *Runner) isGone(ev *event.Event) bool {
	if ev.Watch == event.Deleted {
		return true
	}
	return !ev.Hook.Kubernetes[ev.Index].Deleted && !r.opts.Objects.Has(ev.Hook, ev.Index, ev.Object.Namespace, ev.Object.Name)
}
