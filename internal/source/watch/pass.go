package watch

import (
	"context"
	"log/slog"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// A pass decides whether a change of a binding's objects is an event. It is called with order and mu of the monitor held.
type pass interface {
	// decide returns false for a change that is no event, with the reason; "" if there is none to show, or the pass fires the change later.
	// It may change the event.
	decide(c *Change) (reason string, deliver bool)
}

// arrange sets the passes that the options of the binding and of the installation ask for. Their order matters:
//   - Own changes are first: a change that may be one waits in front of all passes, and later changes of the object behind it.
//   - Muted bindings drop changes, also those that have waited.
//   - Objects of other shards concern no pass below: their shard delivers them and adds the finalizer.
//   - A standby delivers nothing that a guard makes of a change, or no replica would be responsible for the object.
//   - The guard is before the types, which do not include those that it makes.
//
// Behind all passes, send holds the events of a locked binding: a slow Synchronization costs spooled events and no objects.
func (m *monitor) arrange(shards, standbys bool) {
	m.own, m.standby, m.passes = nil, nil, nil
	if m.binding.LeavesOut() {
		m.own = &ownPass{monitor: m, changes: map[string]*ownChanges{}, unseen: map[string]string{}}
		m.passes = append(m.passes, m.own)
	}
	m.passes = append(m.passes, phasePass{m})
	if shards {
		m.passes = append(m.passes, shardPass{m})
	}
	if shards || standbys {
		m.standby = &standbyPass{monitor: m}
		m.passes = append(m.passes, m.standby)
	}
	if m.guard != nil {
		m.passes = append(m.passes, guardPass{m.guard})
	}
	m.passes = append(m.passes, (*typesPass)(m.binding))
}

func (m *monitor) fire(c Change) { m.ask(c, m.passes) }

// ask delivers a change, unless one of the passes withholds it.
func (m *monitor) ask(c Change, passes []pass) {
	for _, p := range passes {
		if reason, deliver := p.decide(&c); !deliver {
			m.withhold(c, reason)
			return
		}
	}
	m.fired = append(m.fired, c)
}

// withhold notes why a change is no event.
func (m *monitor) withhold(c Change, reason string) {
	if reason != "" && !m.quiet && (m.excluded != nil || m.log.Enabled(context.Background(), slog.LevelDebug)) {
		c.withheld = reason
		m.fired = append(m.fired, c)
	}
}

// phasePass withholds changes of a muted binding, and before the initial list is complete.
type phasePass struct{ *monitor }

func (p phasePass) decide(*Change) (string, bool) {
	if p.phase >= muted {
		return "", false
	}
	return "the Synchronization will contain it", p.phase != filling
}

// typesPass withholds the types that the binding does not have.
type typesPass hook.Kubernetes

func (p *typesPass) decide(c *Change) (string, bool) {
	return "executeHookOnEvent does not include its type",
		(c.watch != event.Added || p.Added) && (c.watch != event.Modified || p.Modified) && (c.watch != event.Deleted || p.Deleted)
}
