package queue

import "time"

// Collector is a Task that may let events collect in a lane that is busy: between two runs of such tasks of one owner.
type Collector interface {
	// Collects reports that the task can absorb more, and that nothing in it is urgent.
	Collects() bool
}

func collects(t Task) bool {
	c, ok := t.(Collector)
	return ok && c.Collects()
}

// DefaultCoalescing returns how long a lane lets events collect after a run that took so long: a storm has a quarter of the runs, if these
// are short. Saves two thirds of the CPU time of operator and hooks; see the scenario storm of bench.
func DefaultCoalescing(ran time.Duration) time.Duration { return min(3*ran, 150*time.Millisecond) }

// ran notes a run, and that the lane lets events collect after it if it was not the first one since the lane was idle: few events are no
// storm, and neither are those that follow what was urgent.
func (c *core) ran(now time.Duration, l *lane) {
	last := l.last
	if l.collects, l.last = 0, ""; c.opts.Coalescing == nil || !collects(l.head()) {
		return
	}
	if l.last = l.head().Owner(); l.last == last {
		l.collects = now + c.opts.Coalescing(now-l.began)
	}
}

// coalesce lets events collect in a lane that is about to run, and reports whether it does. Waiting saves a run only if all tasks of the
// lane become one.
func (c *core) coalesce(now time.Duration, l *lane) bool {
	if !l.coalesces() {
		return false
	}
	l.due = l.collects
	c.enter(now, l, Collecting)
	c.collecting.push(l)
	return true
}

// coalesces reports whether all tasks of the lane are one that no run has begun with, and that can absorb more.
func (l *lane) coalesces() bool {
	return !l.busy && len(l.tasks) == 1 && l.head().Owner() == l.last && collects(l.head())
}
