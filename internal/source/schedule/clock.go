// Package schedule fires crontabs when they are due.
//
// Callers may rely on this:
//   - Equal texts are one entry and fire once.
//   - The first activation is counted from the registration. After a gap (a suspended machine, a clock that
//     was set forward) an entry fires once, not for every activation that was missed. When the clock was set back by
//     more than a minute, entries count from the new time; by less, they wait until it has caught up, and fire once.
//   - When clocks change, an entry whose time is skipped fires later by as much as is skipped, one whose time comes twice fires twice.
//   - One goroutine waits for the next activation. Without entries nothing wakes.
package schedule

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Options of a Clock. Fire is required.
type Options struct {
	// Fire is called for each activation, with the text that was registered. It must not block.
	Fire func(crontab string, at time.Time)
	Log  *slog.Logger
	// Now is the wall clock, without a monotonic reading; nil means the clock of the machine.
	Now func() time.Time
}

// Clock fires entries.
type Clock struct {
	opts Options
	wake chan struct{}

	mu sync.Mutex
	// entries are in the order of registration.
	entries []*entry
	// seen is when Run checked the time last.
	seen time.Time
}

type entry struct {
	crontab  string
	schedule Schedule
	// next is zero when the entry is never due again.
	next time.Time
}

// longestSleep bounds one wait, to detect a changed clock or a suspended machine: timers run on a clock that stops
// meanwhile. One wake-up a minute costs nothing that can be measured.
const longestSleep = time.Minute

// New returns a Clock without entries.
func New(opts Options) *Clock {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = wallNow
	}
	return &Clock{opts: opts, wake: make(chan struct{}, 1)}
}

// Register adds an entry, unless the text is one already. Texts that Parse refuses are logged and ignored.
func (c *Clock) Register(crontab string) {
	s, err := Parse(crontab)
	if err != nil {
		c.opts.Log.Error("Crontab is ignored", "crontab", crontab, "error", err.Error())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.entries, func(e *entry) bool { return e.crontab == crontab }) {
		return
	}
	c.entries = append(c.entries, &entry{crontab, s, s.Next(c.opts.Now())})
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Unregister removes the crontabs for which unwanted returns true.
func (c *Clock) Unregister(unwanted func(crontab string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = slices.DeleteFunc(c.entries, func(e *entry) bool { return unwanted(e.crontab) })
}

// Next is when an entry is due again; zero when it never is, or when there is no such entry.
func (c *Clock) Next(crontab string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		if e.crontab == crontab {
			return e.next
		}
	}
	return time.Time{}
}

// wallNow is the time without the monotonic reading, so that comparisons follow the wall clock.
func wallNow() time.Time { return time.Now().Round(0) }

// Run fires entries until ctx ends.
func (c *Clock) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-c.wake:
		}
		due, wait := c.due(c.opts.Now())
		for _, d := range due {
			c.opts.Fire(d.crontab, d.at)
		}
		timer.Stop()
		if wait > 0 {
			timer.Reset(wait)
		}
	}
}

type activation struct {
	crontab string
	at      time.Time
}

// due returns what is due now and how long nothing else will be; 0 means forever.
func (c *Clock) due(now time.Time) (due []activation, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// What is due in an hour would be due in a day after the clock was set back by that.
	if back := c.seen.Sub(now); back > longestSleep {
		c.opts.Log.Warn("The clock was set back. Schedules count from the new time.", "by", back.Round(time.Second).String())
		for _, e := range c.entries {
			e.next = e.schedule.Next(now)
		}
	}
	c.seen = now
	for _, e := range c.entries {
		if e.next.IsZero() {
			continue
		}
		if !e.next.After(now) {
			due = append(due, activation{e.crontab, e.next})
			e.next = after(e.schedule, e.next, now)
		}
		if e.next.IsZero() {
			continue
		}
		if left := max(time.Nanosecond, min(longestSleep, e.next.Sub(now))); wait == 0 || left < wait {
			wait = left
		}
	}
	return due, wait
}

// after returns the first activation after now. An interval keeps its rhythm where it can.
func after(s Schedule, last, now time.Time) time.Time {
	if next := s.Next(last); next.After(now) || next.IsZero() {
		return next
	}
	return s.Next(now)
}
