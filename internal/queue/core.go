package queue

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// core decides what one queue does: which lane starts next, which tasks join, when a failed task is retried. It is a pure state machine:
// time, as the age of the queue, and slots for runs come in; a FIFO queue is one with a single lane.
//
//	         slot, token             success
//	ready ────────────────► running ─────────► (next task) ready, or no lane
//	  ▲  │ no token            │ failure, or not begun
//	  │  ├──────► throttled ───┤
//	  │  └──────► collecting   │
//	  └─ sleeping, blocked ◄───┘
type core struct {
	opts *Options
	// width is the largest number of runs in flight.
	width int
	// single is the lane without a key. It stays; others are in lanes while they have tasks.
	single lane
	lanes  map[string]*lane
	// changes and initial are the ready lanes: those that hold a change, and those that hold initial objects only.
	changes, initial laneHeap
	// sleeping are the lanes in a back-off, collecting those that let events collect.
	sleeping, collecting laneHeap
	// blocked are the lanes whose run has not begun, because the task waits for a signal.
	blocked laneHeap
	// throttles have the lanes that wait for a token, by the owner whose rate limit it is.
	throttles map[string]*throttle
	// running are the lanes with a run in flight, in the order in which these began. Each lane with tasks is here, or in one of these heaps.
	running []*lane
	// length counts the tasks, failed those that have failed, whether they run again or not.
	length, failed int
	// failing counts the failed tasks by owner.
	failing map[string]int
	// streak counts starts of changes in a row while initial objects were ready.
	streak int
	seq    uint64
	paused bool
}

// throttle has the lanes that wait for a token of their owner, in the order in which they became ready. The first has a reservation.
type throttle struct {
	lanes  laneHeap
	at     time.Duration
	cancel func()
}

// oneOf is how many starts there are for each of initial objects while changes are ready, too.
const oneOf = 10

func newCore(opts *Options) core {
	return core{opts: opts, width: 1, sleeping: laneHeap{byDue: true}, collecting: laneHeap{byDue: true}}
}

// lane returns the lane of a key; nil if there is none.
func (c *core) lane(key string) *lane {
	if key == "" {
		return &c.single
	}
	return c.lanes[key]
}

// open returns the lane of a key, which it makes if there is none.
func (c *core) open(key string) *lane {
	l := c.lane(key)
	if l == nil {
		if c.lanes == nil {
			c.lanes = map[string]*lane{}
		}
		c.seq++
		l = &lane{key: key, seq: c.seq}
		c.lanes[key] = l
	}
	return l
}

// all yields the lanes that have tasks.
func (c *core) all() iter.Seq[*lane] {
	return func(yield func(*lane) bool) {
		if len(c.single.tasks) > 0 && !yield(&c.single) {
			return
		}
		for _, l := range c.lanes {
			if !yield(l) {
				return
			}
		}
	}
}

// ordered returns the lanes that have tasks in the order in which they became ready.
func (c *core) ordered() []*lane {
	lanes := slices.Collect(c.all())
	slices.SortFunc(lanes, func(a, b *lane) int { return cmp.Compare(a.seq, b.seq) })
	return lanes
}

// add appends a task to a lane, unless the last one there absorbs it.
func (c *core) add(now time.Duration, key string, t Task) {
	l := c.open(key)
	if r, ok := t.(Replacer); ok && len(l.tasks) > 0 {
		c.replace(now, l, r)
	}
	n := len(l.tasks)
	if (n > 1 || n == 1 && !l.busy) && l.tasks[n-1].Absorb(t) {
		c.reclassify(now, l)
		return
	}
	l.tasks = append(l.tasks, entry{t, now})
	c.length++
	c.added(now, l)
}

// replace lets a task that is added take work out of those that wait, but not out of a busy head.
func (c *core) replace(now time.Duration, l *lane, r Replacer) {
	for i := len(l.tasks) - 1; i > 0 || i == 0 && !l.busy; i-- {
		t := l.tasks[i].Task
		empty, done := r.Replace(t)
		if empty {
			c.forget(l, l.remove(i))
			c.length--
			if i == 0 && len(l.tasks) > 0 { // another task is the head
				c.settle(now, l)
			}
		}
		if done {
			return
		}
	}
}

// split puts what a run has left to another task behind the head.
func (c *core) split(now time.Duration, l *lane, rest Task) {
	head := l.head()
	c.length++
	if f := l.failure(head); f != nil {
		c.countFailed(rest, 1)
		l.failed = append(l.failed, failed{rest, f.failures, f.last})
	}
	l.tasks = slices.Insert(l.tasks, 1, entry{rest, now})
	l.front++
}

// addFirst puts a task before those that wait in its lane, but behind the head if it is busy, and behind those that came by addFirst
// before.
func (c *core) addFirst(now time.Duration, key string, t Task) {
	l := c.open(key)
	c.length++
	l.tasks = slices.Insert(l.tasks, l.front, entry{t, now})
	l.front++
	c.added(now, l)
}

// forget removes the record of a task's failures.
func (c *core) forget(l *lane, t Task) {
	if l.failure(t) != nil {
		l.forget(t)
		c.countFailed(t, -1)
	}
}

func (c *core) countFailed(t Task, n int) {
	c.failed += n
	if c.failing == nil {
		c.failing = map[string]int{}
	}
	owner := t.Owner()
	if c.failing[owner] += n; c.failing[owner] == 0 {
		delete(c.failing, owner)
	}
}

// added makes a lane ready that was empty.
func (c *core) added(now time.Duration, l *lane) {
	if len(l.tasks) == 1 {
		if now >= l.collects {
			l.last = "" // it is idle
		}
		c.settle(now, l)
		return
	}
	c.reclassify(now, l)
}

// reclassify moves a ready lane that has got its first change, and one that has no reason to collect more.
func (c *core) reclassify(now time.Duration, l *lane) {
	if l.phase == Collecting && !l.coalesces() {
		c.settle(now, l)
	}
	if l.in == &c.initial && !l.initial() {
		c.initial.remove(l)
		c.changes.push(l)
	}
}

// settle makes a lane with tasks ready, and ends one without.
func (c *core) settle(now time.Duration, l *lane) {
	if l.in != nil {
		c.leave(l)
	}
	if l.token != nil { // it is not used
		l.token()
		l.token = nil
	}
	c.enter(now, l, Idle)
	c.seq++
	l.seq = c.seq
	if len(l.tasks) > 0 {
		c.queue(l)
		return
	}
	l.busy = false
	if l.key != "" {
		delete(c.lanes, l.key)
	}
}

// queue puts a lane among the ready ones, in the order of their numbers.
func (c *core) queue(l *lane) {
	if l.key != "" && l.initial() {
		c.initial.push(l)
	} else {
		c.changes.push(l)
	}
}

func (c *core) enter(now time.Duration, l *lane, p Phase) {
	if l.phase != p {
		l.phase, l.began = p, now
	}
}

// leave takes a lane out of its heap. A throttle without lanes gives its reservation back.
func (c *core) leave(l *lane) {
	h := l.in
	h.remove(l)
	for owner, t := range c.throttles {
		if h == &t.lanes && h.Len() == 0 {
			t.giveBack()
			delete(c.throttles, owner)
		}
	}
}

func (t *throttle) giveBack() {
	if t.cancel != nil {
		t.cancel()
	}
}

// next starts a run and returns its lane; nil if none may start. It calls slot for one, directly before the start.
func (c *core) next(now time.Duration, slot func() bool) *lane {
	c.ripen(now)
	for !c.paused && len(c.running) < c.width {
		l := c.pick()
		switch {
		case l == nil:
			return nil
		case now < l.collects && c.coalesce(now, l):
		case !c.admit(now, l): // it is throttled
		case !slot():
			c.queue(l)
			return nil
		default:
			c.begin(now, l)
			return l
		}
	}
	return nil
}

// ripen makes lanes ready whose delay is over, and those for which a token has arrived.
func (c *core) ripen(now time.Duration) {
	for _, h := range []*laneHeap{&c.sleeping, &c.collecting} {
		for h.Len() > 0 && h.min().due <= now {
			c.settle(now, h.min())
		}
	}
	for owner, t := range c.throttles {
		for t.at <= now && t.lanes.Len() > 0 {
			l := t.lanes.pop()
			if l.token = t.cancel; l.token == nil {
				l.token = func() {}
			}
			c.queue(l)
			if t.cancel = nil; t.lanes.Len() > 0 {
				var wait time.Duration
				wait, t.cancel = t.lanes.min().head().Ready()
				t.at = now + wait
			}
		}
		if t.lanes.Len() == 0 {
			delete(c.throttles, owner)
		}
	}
}

// pick takes the lane that is next out of the ready ones; nil if there is none.
func (c *core) pick() *lane {
	switch {
	case c.initial.Len() > 0 && (c.changes.Len() == 0 || c.streak >= oneOf-1):
		return c.initial.pop()
	case c.changes.Len() > 0:
		return c.changes.pop()
	}
	return nil
}

// admit reports whether the head has the token that it needs. Otherwise the lane is throttled.
func (c *core) admit(now time.Duration, l *lane) bool {
	if l.token != nil {
		return true
	}
	owner := l.head().Owner()
	t := c.throttles[owner]
	if t == nil {
		wait, cancel := l.head().Ready()
		if wait <= 0 {
			l.token = cancel
			return true
		}
		if c.throttles == nil {
			c.throttles = map[string]*throttle{}
		}
		t = &throttle{at: now + wait, cancel: cancel}
		c.throttles[owner] = t
	}
	l.take()
	c.enter(now, l, Waiting)
	t.lanes.push(l)
	return false
}

// take marks the head as busy.
func (l *lane) take() {
	l.busy, l.front = true, max(1, l.front)
}

// begin makes the head absorb its neighbours, and run.
func (c *core) begin(now time.Duration, l *lane) {
	switch {
	case l.key != "" && l.initial():
		c.streak = 0
	case c.initial.Len() > 0:
		c.streak++
	}
	l.take()
	l.outdated = false
	head := l.tasks[0]
	for len(l.tasks) > 1 && head.Absorb(l.tasks[1].Task) {
		c.forget(l, l.remove(1))
		c.length--
	}
	c.enter(now, l, Running)
	c.running = append(c.running, l)
	if s, ok := head.Task.(Starter); ok {
		start := Start{Key: l.key, Waited: now - head.since}
		if f := l.failure(head.Task); f != nil {
			start.Failures = f.failures
		}
		s.Starting(start)
	}
}

// stop ends the run of a lane, which has used its token.
func (c *core) stop(l *lane) {
	l.token = nil
	c.running = slices.DeleteFunc(c.running, func(other *lane) bool { return other == l })
}

// done removes the head, whose run is over.
func (c *core) done(now time.Duration, l *lane) {
	c.ran(now, l)
	c.stop(l)
	c.drop(now, l)
}

// drop removes the head, and makes the next task the head.
func (c *core) drop(now time.Duration, l *lane) Task {
	t := l.remove(0)
	c.forget(l, t)
	l.busy = false
	c.length--
	c.settle(now, l)
	return t
}

// ended leaves the head in its lane, ready for another run, without counting a failure.
func (c *core) ended(now time.Duration, l *lane) {
	c.stop(l)
	c.settle(now, l)
}

// verdict is what follows a failure: another attempt after a delay, or, if the task is exhausted, none.
type verdict struct {
	failures  int
	delay     time.Duration
	exhausted bool
}

// judge counts a failure of the head.
func (c *core) judge(l *lane, err error) verdict {
	if l.failure(l.head()) == nil {
		c.countFailed(l.head(), 1)
	}
	v := verdict{failures: l.fail(err).failures}
	p := l.head().Policy()
	giveUp, delay, given := decision(err)
	switch {
	case l.outdated: // it does not decide
	case giveUp || p.Limit > 0 && v.failures >= p.Limit:
		v.exhausted = true
	case given:
		v.delay = delay
	default:
		v.delay = c.opts.delay(p, v.failures)
	}
	return v
}

// delay is how long a policy waits before the next attempt.
func (o *Options) delay(p Policy, failures int) time.Duration {
	if p.MinDelay == 0 {
		return o.Backoff(failures - 1)
	}
	grown := float64(p.MinDelay) * math.Pow(2, float64(failures-1))
	return time.Duration(min(grown, float64(p.MaxDelay)) * (0.9 + 0.2*o.Random()))
}

// sleep delays the next attempt of the head. A lane is idle again, as to coalescing, after the delay.
func (c *core) sleep(now time.Duration, l *lane, v verdict) {
	l.collects, l.last = 0, ""
	c.stop(l)
	l.tasks[0].since = now
	c.seq++
	l.delay, l.due, l.seq = v.delay, now+v.delay, c.seq
	c.enter(now, l, Sleeping)
	c.sleeping.push(l)
}

// block lets a run that has not begun wait for a signal. The lane keeps the token.
func (c *core) block(now time.Duration, l *lane, until <-chan struct{}) {
	token := l.token
	c.stop(l)
	c.seq++
	l.token, l.until, l.seq = token, until, c.seq
	c.enter(now, l, Waiting)
	c.blocked.push(l)
}

// unblock makes a lane ready that still waits for this signal.
func (c *core) unblock(now time.Duration, l *lane, until <-chan struct{}) {
	if l.in != &c.blocked || l.until != until {
		return
	}
	token := l.token
	l.token = nil
	c.settle(now, l)
	l.token = token
}

// wake returns when next may start more without another input; false for never.
func (c *core) wake() (at time.Duration, ok bool) {
	if c.paused || len(c.running) >= c.width {
		return 0, false
	}
	for _, h := range []*laneHeap{&c.sleeping, &c.collecting} {
		if h.Len() > 0 && (!ok || h.min().due < at) {
			at, ok = h.min().due, true
		}
	}
	for _, t := range c.throttles {
		if !ok || t.at < at {
			at, ok = t.at, true
		}
	}
	return at, ok
}

// retry ends the delay of lanes, and returns of how many.
func (c *core) retry(now time.Duration, which func(key string, head Task) bool) (ended int) {
	for _, l := range slices.Clone(c.sleeping.lanes) {
		if which(l.key, l.head()) {
			c.settle(now, l)
			ended++
		}
	}
	return ended
}

// repeat ends the back-off of lanes, and does not count the last attempt of their heads, or the one in progress.
func (c *core) repeat(now time.Duration, which func(head Task) bool) {
	for _, l := range slices.Clone(c.sleeping.lanes) {
		if which(l.head()) {
			c.again(now, l)
		}
	}
	for _, l := range c.running {
		l.outdated = l.outdated || which(l.head())
	}
}

// again makes a lane ready whose head has failed, and does not count the last attempt.
func (c *core) again(now time.Duration, l *lane) {
	if f := l.failure(l.head()); f.failures > 1 {
		f.failures--
	} else {
		c.forget(l, l.head())
	}
	c.settle(now, l)
}

// skip removes a failed head that does not run.
func (c *core) skip(now time.Duration, key string) (f failed, ok bool) {
	l := c.lane(key)
	if l == nil || len(l.tasks) == 0 || l.phase == Running || l.failure(l.head()) == nil {
		return failed{}, false
	}
	f = *l.failure(l.head())
	c.drop(now, l)
	return f, true
}

// edit drops the tasks that keep refuses, but none that runs.
func (c *core) edit(now time.Duration, keep func(Task) bool) {
	for _, l := range c.ordered() {
		c.sift(now, l, keep)
	}
}

// sift drops the tasks of a lane that keep refuses, but not one that runs. A lane whose head leaves starts from the beginning.
func (c *core) sift(now time.Duration, l *lane, keep func(Task) bool) {
	var kept []entry
	headLeft := false
	for i, e := range l.tasks {
		if i == 0 && l.phase == Running || keep(e.Task) {
			kept = append(kept, e)
			continue
		}
		if len(kept) < l.front {
			l.front--
		}
		if i == 0 {
			headLeft, l.busy = true, false
		}
		c.forget(l, e.Task)
		c.length--
	}
	if len(kept) < len(l.tasks) {
		l.tasks = kept
	}
	if headLeft {
		c.settle(now, l)
	}
}

// halt ends all waits of lanes: for delays, signals, tokens and more events. The tasks keep their order and their failures.
func (c *core) halt(now time.Duration) {
	for _, l := range c.ordered() {
		if l.phase != Idle && l.phase != Running {
			c.settle(now, l)
		}
	}
}

// size is the number of lanes that have tasks.
func (c *core) size() int {
	n := len(c.lanes)
	if len(c.single.tasks) > 0 {
		n++
	}
	return n
}

// shown returns the first lanes, at most as many as limit: those that wait for their next attempt, by its time, those that run, failed ones
// first, and the others in the order in which they became ready. It does not visit the rest.
func (c *core) shown(limit int) []*lane {
	running := slices.Clone(c.running)
	slices.SortStableFunc(running, func(a, b *lane) int { return cmp.Compare(len(b.failed), len(a.failed)) })
	lanes := append(c.sleeping.first(limit), running...)
	if left := limit - len(lanes); left > 0 {
		var waiting []*lane
		for h := range c.waiting() {
			waiting = append(waiting, h.first(left)...)
		}
		slices.SortFunc(waiting, func(a, b *lane) int { return cmp.Compare(a.seq, b.seq) })
		lanes = append(lanes, waiting...)
	}
	return lanes[:min(limit, len(lanes))]
}

// search returns the first lanes whose keys contain a text, those whose head has failed first, then by key, and the number of all.
func (c *core) search(text string, limit int) (lanes []*lane, matching int) {
	order := func(a, b *lane) int {
		return cmp.Or(cmp.Compare(last(a.failure(a.head()) == nil), last(b.failure(b.head()) == nil)), cmp.Compare(a.key, b.key))
	}
	for l := range c.all() {
		if !strings.Contains(l.key, text) {
			continue
		}
		matching++
		if at, _ := slices.BinarySearchFunc(lanes, l, order); at < limit {
			lanes = slices.Insert(lanes[:min(len(lanes), limit-1)], at, l)
		}
	}
	return lanes, matching
}

// waiting yields the heaps of lanes that wait for their turn, a signal, more events or a token.
func (c *core) waiting() iter.Seq[*laneHeap] {
	return func(yield func(*laneHeap) bool) {
		if !yield(&c.changes) || !yield(&c.initial) || !yield(&c.blocked) || !yield(&c.collecting) {
			return
		}
		for _, t := range c.throttles {
			if !yield(&t.lanes) {
				return
			}
		}
	}
}

// delayed counts the failed tasks that do not run.
func (c *core) delayed() int {
	n := c.failed
	for _, l := range c.running {
		if l.failure(l.head()) != nil {
			n--
		}
	}
	return n
}
