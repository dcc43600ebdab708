package run

import (
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/run/pending"
)

// previousInRun has the versions of objects that the hook has processed before a context of a run: earlier in the run, else in a run that
// has succeeded.
type previousInRun struct {
	of      *pending.Ledger
	earlier map[pending.Subject]*event.Object
}

// before returns the version that the hook has processed before this event, or nil, and notes the event.
func (s *previousInRun) before(ev *event.Event) *event.Object {
	if !pending.IncludesPrevious(ev) {
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

// beginList is called before a run gets its contexts. The returned function ends the run.
func (r *Runner) beginList(t *Task) (end func()) {
	for ev := range t.Events() {
		if listsPrevious(&ev) {
			r.opts.Pending.BeginList(t.readExtra().run)
			return r.opts.Pending.EndList
		}
	}
	return func() {}
}

// listsPrevious reports whether the objects of an initial list become previous versions.
func listsPrevious(ev *event.Event) bool {
	return ev.Type == event.Synchronization && ev.Binding().Group == "" && ev.Hook.Kubernetes[ev.Index].IncludePrevious
}

// isGone reports whether no later event ends what is kept of an object. A binding without Deleted events does not get one.
func (r *Runner) isGone(ev *event.Event) bool {
	if ev.Watch == event.Deleted {
		return true
	}
	return !ev.Hook.Kubernetes[ev.Index].Deleted && !r.opts.Objects.Has(ev.Hook, ev.Index, ev.Object.Namespace, ev.Object.Name)
}
