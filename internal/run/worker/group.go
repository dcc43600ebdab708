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
//   - At least as many workers are starting as runs wait.
//   - An idle worker is not there while a run waits.
//   - A worker that is always there serves until its successor is ready, whatever its limits are.
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
	// failures counts the workers in a row that have ended before they had served a run; a group that is always there starts the next one
	// at retryAt. The last start has failed by cause; it is empty if a worker was ready since.
	failures int
	retryAt  time.Time
	cause    string
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
	// number counts the workers of the hook, process is nil until it has been started; the group does not use them.
	number  int
	process *process.Resident
	state   state
	// began is when it was started, since when it became idle.
	began, since time.Time
	// runs are those that it has served.
	runs int
}

// waiter is a run that waits for a worker, which granted receives; the group does not use it.
type waiter struct{ granted chan grant }

// action is what a caller has to do.
type action struct {
	kind   actionKind
	member *member
	waiter *waiter
	// err is the end of the worker for which the run of waiter fails; nil if that was intended.
	err error
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
	for _, m := range slices.Backward(g.members) {
		switch {
		case m.state != idle:
		case g.worn(now, m) && !g.last():
			todo = append(todo, leave(m))
		default:
			return append(todo, serve(m, w))
		}
	}
	g.waiting = append(g.waiting, w)
	if g.count(starting) < len(g.waiting) {
		todo = append(todo, g.start(now))
	}
	return todo
}

// left is called when a run does not wait any more.
func (g *group) left(w *waiter) {
	g.waiting = slices.DeleteFunc(g.waiting, func(other *waiter) bool { return other == w })
}

// ready is called when a worker is ready.
func (g *group) ready(now time.Time, m *member) []action {
	if m.state != starting {
		return nil
	}
	g.cause = ""
	return g.free(now, m)
}

// served is called when a worker has served a run and can serve others.
func (g *group) served(now time.Time, m *member) []action {
	m.runs++
	if !g.always || g.cause == "" { // what is always there is started again even if no run asks for it
		g.failures, g.cause = 0, ""
	}
	return g.free(now, m)
}

// free is called when a worker can serve a run. The one that has waited longest gets it.
func (g *group) free(now time.Time, m *member) (todo []action) {
	g.members = append(slices.DeleteFunc(g.members, func(other *member) bool { return other == m }), m)
	m.state, m.since = idle, now
	switch {
	case m.runs > 0 && g.worn(now, m) && !g.last(): // the start for a run that waits goes on
		todo = append(todo, leave(m))
	case len(g.waiting) > 0:
		w := g.waiting[0]
		g.left(w)
		todo = append(todo, serve(m, w))
	case g.retired:
		todo = append(todo, leave(m))
	}
	return append(todo, g.tick(now)...)
}

// ended is called when the process of a worker has ended; with nil if that was intended. A start that has failed fails a run.
func (g *group) ended(now time.Time, m *member, err error) (todo []action) {
	g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
	if len(g.waiting) > g.count(starting) {
		w := g.waiting[0]
		g.left(w)
		todo = append(todo, action{kind: fail, waiter: w, err: err})
	}
	if err != nil && m.runs == 0 {
		g.failures++
		g.retryAt = now.Add(min(time.Second<<min(g.failures-1, 10), time.Minute))
	}
	if err != nil && m.state == starting {
		g.cause = publicCause(err)
	}
	return append(todo, g.tick(now)...)
}

// retire ends the workers that serve no run and that no run waits for, and the others after theirs.
func (g *group) retire() (todo []action) {
	g.retired, g.always = true, false
	spare := g.count(starting) - len(g.waiting)
	for _, m := range g.members {
		if m.state == starting && spare > 0 {
			spare--
			todo = append(todo, leave(m))
		}
		if m.state == idle {
			todo = append(todo, leave(m))
		}
	}
	return todo
}

// tick does what is due.
func (g *group) tick(now time.Time) (todo []action) {
	for _, m := range g.members {
		if due := g.due(m); !due.IsZero() && !now.Before(due) {
			todo = append(todo, leave(m))
		}
	}
	if at, lacks := g.lacksAt(); lacks && !now.Before(at) && !now.Before(g.retryAt) {
		todo = append(todo, g.start(now))
	}
	return todo
}

// next is when tick has something to do; zero if time alone changes nothing.
func (g *group) next() (next time.Time) {
	for _, m := range g.members {
		next = earlier(next, g.due(m))
	}
	if at, lacks := g.lacksAt(); lacks {
		if at.Before(g.retryAt) {
			at = g.retryAt
		}
		next = earlier(next, at)
	}
	return next
}

// due is when a worker ends if it stays idle; zero for never.
func (g *group) due(m *member) (due time.Time) {
	if m.state != idle || g.last() {
		return due
	}
	if g.limits.idleTimeout > 0 {
		due = m.since.Add(g.limits.idleTimeout)
	}
	return earlier(due, g.wornAt(m))
}

// earlier returns the earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// wornAt is when a ready worker reaches a limit that a new one does not have; zero for never.
func (g *group) wornAt(m *member) (at time.Time) {
	if g.limits.maxAge > 0 {
		at = m.began.Add(g.limits.maxAge)
	}
	if g.limits.maxRuns > 0 && m.runs >= g.limits.maxRuns {
		at = earlier(at, m.since)
	}
	return at
}

func (g *group) worn(now time.Time, m *member) bool {
	at := g.wornAt(m)
	return !at.IsZero() && !now.Before(at)
}

// last reports that the only worker that is ready is one that is always there.
func (g *group) last() bool { return g.always && g.count(idle)+g.count(serving) == 1 }

// lacksAt is when the group lacks the worker that is always there: none is starting, and those that are ready have reached a limit.
func (g *group) lacksAt() (at time.Time, lacks bool) {
	for _, m := range g.members {
		worn := g.wornAt(m)
		switch {
		case m.state == leaving:
		case m.state == starting || worn.IsZero():
			return at, false
		case at.Before(worn):
			at = worn
		}
	}
	return at, g.always
}

func (g *group) count(in state) (n int) {
	for _, m := range g.members {
		if m.state == in {
			n++
		}
	}
	return n
}

// start adds a worker.
func (g *group) start(now time.Time) action {
	m := &member{began: now}
	g.members = append([]*member{m}, g.members...)
	return action{kind: start, member: m}
}

func serve(m *member, w *waiter) action {
	m.state = serving
	return action{kind: give, member: m, waiter: w}
}

func leave(m *member) action {
	m.state = leaving
	return action{kind: end, member: m}
}
