package worker

import (
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/process"
)

// group decides about the workers of one hook: which one serves a run, which one is started, which one ends. It has no processes, no locks
// and no clock: callers pass the time, and carry out the actions that its methods return.
//
// Its invariants:
//   - At most one worker is starting for each run that waits, besides the one that is always there.
//   - A run that waits has a worker that is starting for it.
//   - An idle worker is not there while a run waits.
type group struct {
	limits limits
	// always keeps a worker for runs that have not come yet.
	always bool
	// retired: no run comes any more but those that have begun to come.
	retired bool
	// members are all workers that have not ended. Of the idle ones the last one has served last.
	members []*member
	// waiting are the runs without a worker, in order.
	waiting []*waiter
	// failures counts the starts of the worker that is always there which have failed in a row; the next one comes at retryAt.
	failures int
	retryAt  time.Time
}

// limits of a worker; 0 means none.
type limits struct {
	maxAge, idleTimeout time.Duration
	maxRuns             int
}

type state int

const (
	// starting: it is not ready.
	starting state = iota
	idle
	serving
	// leaving: it is to end.
	leaving
)

// String is the word for users.
func (s state) String() string { return [...]string{"starting", "ready", "serving", "ending"}[s] }

// member is a worker.
type member struct {
	// number is that among the workers of the hook, process its process; the group does not use them.
	number  int
	process *process.Resident
	state   state
	// began is when it was started, since when it became idle.
	began, since time.Time
	runs         int
	// of is the run for which it is starting; nil when that has another worker or has gone.
	of *waiter
	// worn: it is to end as soon as its successor is ready.
	worn bool
	// served: it has served a run, or was idle for a while. Its end is not that of a start.
	served bool
}

// waiter is a run that waits for a worker, which granted receives; the group does not use it.
type waiter struct{ granted chan grant }

// action is what a caller has to do.
type action struct {
	kind   actionKind
	member *member
	waiter *waiter
	err    error
}

type actionKind int

const (
	// start a worker, let member serve the run of waiter, fail that run, end member.
	start actionKind = iota
	give
	fail
	end
)

// want is called for a run that wants a worker.
func (g *group) want(now time.Time, w *waiter) (todo []action) {
	for i := len(g.members) - 1; i >= 0; i-- {
		m := g.members[i]
		if m.state != idle {
			continue
		}
		if g.worn(now, m) && !g.last(m) {
			todo = append(todo, g.leave(m))
			continue
		}
		m.state = serving
		return append(todo, action{kind: give, member: m, waiter: w})
	}
	g.waiting = append(g.waiting, w)
	for _, m := range g.members {
		if m.state == starting && m.of == nil {
			m.of = w
			return todo
		}
	}
	return append(todo, g.start(now, w))
}

// left is called when a run does not wait any more.
func (g *group) left(w *waiter) {
	g.waiting = slices.DeleteFunc(g.waiting, func(other *waiter) bool { return other == w })
	for _, m := range g.members {
		if m.of == w {
			m.of = nil
		}
	}
}

// ready is called when a worker is ready.
func (g *group) ready(now time.Time, m *member) (todo []action) {
	if m.state != starting {
		return nil
	}
	owner := m.of
	m.of, m.state, m.since = nil, idle, now
	if len(g.waiting) > 0 {
		// The run that has waited longest gets it; the worker that is starting for that one is then for the owner.
		w := g.waiting[0]
		g.waiting = g.waiting[1:]
		if owner != w {
			for _, other := range g.members {
				if other.of == w {
					other.of = owner
				}
			}
		}
		m.state = serving
		todo = append(todo, action{kind: give, member: m, waiter: w})
	}
	for _, other := range slices.Clone(g.members) {
		if other.worn && other.state == idle && other != m {
			todo = append(todo, g.leave(other))
		}
	}
	return append(todo, g.tick(now)...)
}

// served is called when a worker has served a run and can serve others.
func (g *group) served(now time.Time, m *member) (todo []action) {
	if m.state != serving {
		return nil
	}
	m.runs++
	m.state, m.since, m.served = idle, now, true
	g.failures = 0
	g.members = append(slices.DeleteFunc(g.members, func(other *member) bool { return other == m }), m)
	switch {
	case g.retired && len(g.waiting) == 0, g.worn(now, m) && !g.last(m):
		todo = append(todo, g.leave(m))
	case len(g.waiting) > 0:
		w := g.waiting[0]
		g.left(w)
		m.state = serving
		todo = append(todo, action{kind: give, member: m, waiter: w})
	}
	return append(todo, g.tick(now)...)
}

// unsent is called when a worker that was to serve a run has not got it: it is ending.
func (g *group) unsent(m *member) {
	if m.state == serving {
		m.state = leaving
	}
}

// ended is called when the process of a worker has ended; well if that was intended.
func (g *group) ended(now time.Time, m *member, well bool) (todo []action) {
	before := m.state
	g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
	if before == starting && m.of != nil {
		w := m.of
		g.left(w)
		todo = append(todo, action{kind: fail, waiter: w})
	}
	if !well && !m.served {
		g.failures++
		g.retryAt = now.Add(min(time.Second<<min(g.failures-1, 10), time.Minute))
	}
	return append(todo, g.tick(now)...)
}

// retire ends the workers that serve no run, and the others after theirs.
func (g *group) retire() (todo []action) {
	g.retired, g.always = true, false
	for _, m := range slices.Clone(g.members) {
		if m.state == idle || m.state == starting && m.of == nil {
			todo = append(todo, g.leave(m))
		}
	}
	return todo
}

// tick does what is due.
func (g *group) tick(now time.Time) (todo []action) {
	for _, m := range slices.Clone(g.members) {
		if m.state != idle {
			continue
		}
		rests := g.limits.idleTimeout > 0 && now.Sub(m.since) >= g.limits.idleTimeout
		switch worn := g.worn(now, m); {
		case (worn || rests) && !g.last(m):
			todo = append(todo, g.leave(m))
		case worn:
			m.worn = true
		}
	}
	if !g.always || now.Before(g.retryAt) {
		return todo
	}
	// One that is neither worn nor leaving is enough, in whatever state it is.
	for _, m := range g.members {
		if m.state != leaving && !m.worn {
			return todo
		}
	}
	return append(todo, g.start(now, nil))
}

// next is when tick has something to do; zero if time alone changes nothing.
func (g *group) next() (due time.Time) {
	sooner := func(t time.Time) {
		if due.IsZero() || t.Before(due) {
			due = t
		}
	}
	for _, m := range g.members {
		if m.state != idle || m.worn {
			continue
		}
		if g.limits.maxAge > 0 {
			sooner(m.began.Add(g.limits.maxAge))
		}
		if g.limits.idleTimeout > 0 && !g.last(m) {
			sooner(m.since.Add(g.limits.idleTimeout))
		}
	}
	if g.always && !slices.ContainsFunc(g.members, func(m *member) bool { return m.state != leaving && !m.worn }) {
		sooner(g.retryAt)
	}
	return due
}

// worn reports whether a worker has reached a limit that a successor does not have.
func (g *group) worn(now time.Time, m *member) bool {
	return g.limits.maxAge > 0 && now.Sub(m.began) >= g.limits.maxAge || g.limits.maxRuns > 0 && m.runs >= g.limits.maxRuns
}

// last reports whether a worker has to stay, because one is always there and it is the only one that is ready.
func (g *group) last(m *member) bool {
	return g.always && !slices.ContainsFunc(g.members, func(other *member) bool {
		return other != m && (other.state == idle || other.state == serving) && !other.worn
	})
}

// start adds a worker for a run, or for none.
func (g *group) start(now time.Time, w *waiter) action {
	m := &member{began: now, of: w}
	g.members = append([]*member{m}, g.members...)
	return action{kind: start, member: m, waiter: w}
}

// leave ends a worker.
func (g *group) leave(m *member) action {
	m.state = leaving
	return action{kind: end, member: m}
}
