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
