package queue

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// step is one thing that happens in TestAgainstModel.
type step struct {
	// kind is "add" or "first" (hook), "replace" (an added task takes an event out of one that waits), "halve" (the task that runs),
	// "finish", "fail" or "giveup" (the task that runs), "block" (the task that runs has not begun) and "signal"
	// (the lane), "skip", "drop" (hook), "retry" (the lane), "repeat" (hook), "wait" (until all delays are over, and those who collect events
	// have run), "stop" (all runs, which begin again), or toggles a pause of the queue.
	kind, queue, key, hook string
}

// steps draw hooks and lanes of a FIFO queue and of one with two runs in flight: of all kinds alike, or mostly what makes a lane busy with
// one hook.
var steps = rapid.Custom(func(t *rapid.T) []step {
	kinds := []string{
		"add", "add", "add", "add", "add", "first", "replace", "halve", "halve", "finish", "finish", "finish", "fail",
		"fail", "giveup", "block", "block", "signal", "skip", "drop", "retry", "repeat", "wait", "wait", "pause",
	}
	keys, hooks := []string{"a", "b", "c"}, []string{"x", "y", "-"} // "-" absorbs nothing; "y" has three attempts
	if rapid.Bool().Draw(t, "busy") {
		kinds = append(slices.Repeat([]string{"add", "finish", "wait"}, 10), kinds...)
		keys, hooks = []string{"a"}, []string{"x", "x", "x", "x", "x", "x", "y", "-"}
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		s := step{
			kind:  rapid.SampledFrom(kinds).Draw(t, "kind"),
			queue: rapid.SampledFrom([]string{"main", "side", "side"}).Draw(t, "queue"),
			key:   rapid.SampledFrom(keys).Draw(t, "key"),
			hook:  rapid.SampledFrom(hooks).Draw(t, "hook"),
		}
		if s.queue == "main" {
			s.key = ""
		}
		return s
	}), 20, 80).Draw(t, "steps")
})

// seeds is how many random sequences are tried.
func seeds() string {
	switch {
	case os.Getenv("LONG") != "":
		return "100000"
	case testing.Short():
		return "50"
	}
	return "300"
}

// TestAgainstModel compares what a Set runs and holds after each step with plain lists.
func TestAgainstModel(t *testing.T) {
	if err := flag.Set("rapid.checks", seeds()); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		all := steps.Draw(rt, "steps")
		var got []string
		synctest.Test(t, func(t *testing.T) { got = play(t, all) })
		want := playModel(all)
		for i := range all {
			if got[i] != want[i] {
				var text strings.Builder
				for j := range i + 1 {
					fmt.Fprintf(&text, "%v\n\t%s\n", all[j], got[j])
				}
				rt.Fatalf("%swant\t%s", text.String(), want[i])
			}
		}
	})
}

// TestStops: counters and the order of lanes stay right when runs are stopped at any time and start again.
func TestStops(t *testing.T) {
	if err := flag.Set("rapid.checks", seeds()); err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, all []step) (wrong string) {
		synctest.Test(t, func(t *testing.T) {
			for i, text := range play(t, all) {
				if !strings.HasSuffix(text, "]") && wrong == "" {
					wrong = fmt.Sprintf("%v: %s", all[:i+1], text)
				}
			}
		})
		return wrong
	}
	rapid.Check(t, func(rt *rapid.T) {
		all := steps.Draw(rt, "steps")
		for _, i := range rapid.SliceOf(rapid.IntRange(0, len(all)-1)).Draw(rt, "stops") {
			all[i].kind = "stop"
		}
		if wrong := check(t, all); wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

const modelDelay = time.Minute

// play returns what each lane runs and holds after each step, with a Set.
func play(t *testing.T, steps []step) []string {
	gates := &gates{of: map[string]chan error{}, tasks: map[string]*gatedTask{}}
	signals := map[string]chan struct{}{}
	set := NewSet(Options{
		Backoff: func(int) time.Duration { return modelDelay }, Random: func() float64 { return 0.5 },
		Coalescing:  func(ran time.Duration) time.Duration { return min(ran, modelDelay/2) },
		OnExhausted: func(f Failed) { gates.exhausted = append(gates.exhausted, fmt.Sprint(f.Task)) },
	})
	set.Keep(map[string]Shape{"main": {}, "side": {Keyed: true, Concurrency: 2}})
	ended := make(chan error)
	run := func() context.CancelFunc {
		stop, cancel := context.WithCancel(t.Context())
		go func() { ended <- set.Run(stop, stop) }()
		return cancel
	}
	cancel := run()
	defer func() {
		cancel()
		<-ended
	}()
	var seen []string
	paused := map[string]bool{}
	for i, s := range steps {
		task := &gatedTask{queue: s.queue, hook: s.hook, events: []int{i}, gates: gates}
		gate := gates.gate(s.queue, s.key)
		switch {
		case s.kind == "add":
			set.Add(s.queue, s.key, task)
		case s.kind == "replace":
			task.replaces = true
			set.Add(s.queue, s.key, task)
		case s.kind == "halve" && gate != nil:
			gates.task(s.queue, s.key).halve()
		case s.kind == "first":
			set.AddFirst(s.queue, s.key, task)
		case s.kind == "finish" && gate != nil:
			gate <- nil
		case s.kind == "fail" && gate != nil:
			gate <- errors.New("fails")
		case s.kind == "giveup" && gate != nil:
			gate <- &decidedError{giveUp: true}
		case s.kind == "block" && gate != nil:
			signals[s.queue+s.key] = make(chan struct{})
			gate <- blockedError{signals[s.queue+s.key], 1000 * modelDelay}
		case s.kind == "signal" && signals[s.queue+s.key] != nil:
			close(signals[s.queue+s.key])
			delete(signals, s.queue+s.key)
		case s.kind == "skip":
			set.Skip(s.queue, s.key)
		case s.kind == "drop":
			set.Edit(func(t Task) bool { return t.(*gatedTask).hook != s.hook })
		case s.kind == "retry":
			set.Retry(func(queue, key string, _ Task) bool { return queue == s.queue && key == s.key })
		case s.kind == "repeat":
			set.Repeat(func(head Task) bool { return head.(*gatedTask).hook == s.hook })
		case s.kind == "wait":
			time.Sleep(modelDelay)
		case s.kind == "stop":
			cancel()
			<-ended
			cancel = run()
		case s.kind == "pause":
			if paused[s.queue] = !paused[s.queue]; paused[s.queue] {
				set.Pause(s.queue)
			} else {
				set.Resume(s.queue)
			}
		}
		synctest.Wait()
		seen = append(seen, shown(set)+fmt.Sprint("exhausted ", gates.exhausted)+wrongCounters(set))
	}
	return seen
}

func shown(set *Set) string {
	var text strings.Builder
	for _, q := range dump(set) {
		slices.SortFunc(q.lanes, func(a, b dumpedLane) int { return cmp.Compare(a.Key, b.Key) })
		fmt.Fprintf(&text, "%s:", q.Name)
		for _, l := range q.lanes {
			fmt.Fprintf(&text, " %s(%s", l.Key, modelPhase(l.Phase == Running, l.Phase == Sleeping, l.Phase == Collecting))
			for _, task := range l.tasks {
				text.WriteString(" " + task)
			}
			text.WriteString(")")
		}
		text.WriteString("; ")
	}
	return text.String()
}

func modelPhase(runs, sleeps, collects bool) string {
	switch {
	case collects:
		return "collects"
	case runs:
		return "runs"
	case sleeps:
		return "sleeps"
	}
	return "waits"
}

// gatedTask runs until the test ends it.
type gatedTask struct {
	plain
	queue, key, hook string
	events           []int
	gates            *gates
	// replaces makes it take an event out of a task that waits. Rest is what a run has left, and most the number of events from then on.
	replaces bool
	rest     *gatedTask
	most     int
}

var _, _, _ = Replacer((*gatedTask)(nil)), Splitter((*gatedTask)(nil)), Collector((*gatedTask)(nil))

func (g *gatedTask) Collects() bool { return modelCollects(g.hook, g.events) }

// modelCollects is false for some events that are urgent, and for many.
func modelCollects(hook string, events []int) bool {
	return hook != "-" && len(events) < 5 && !slices.ContainsFunc(events, func(i int) bool { return i%10 == 9 })
}

// halve makes the run leave half of the events.
func (g *gatedTask) halve() {
	if half := len(g.events) / 2; half > 0 && g.rest == nil {
		g.rest = &gatedTask{queue: g.queue, hook: g.hook, events: slices.Clone(g.events[half:]), gates: g.gates}
		g.events, g.most = g.events[:half:half], half
	}
}

func (g *gatedTask) Rest() Task {
	rest := g.rest
	if g.rest = nil; rest == nil {
		return nil
	}
	return rest
}

// Replace takes out the last event of the hook, if its number is even.
func (g *gatedTask) Replace(waiting Task) (empty, done bool) {
	w := waiting.(*gatedTask)
	switch last := len(w.events) - 1; {
	case !g.replaces:
		return false, true
	case w.hook != g.hook:
		return false, false
	case w.events[last]%2 == 0:
		w.events = w.events[:last]
	}
	return len(w.events) == 0, true
}

// gates has the channels that end the tasks that run, by lane, and the tasks that were exhausted.
type gates struct {
	mu        sync.Mutex
	of        map[string]chan error
	tasks     map[string]*gatedTask
	exhausted []string
}

// task is the one that runs in a lane.
func (g *gates) task(queue, key string) *gatedTask {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tasks[queue+"/"+key]
}

func (g *gates) gate(queue, key string) chan error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[queue+"/"+key]
}

func (g *gates) set(queue, key string, gate chan error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of[queue+"/"+key] = gate
}

func (g *gatedTask) String() string   { return fmt.Sprint(g.hook, g.events) }
func (g *gatedTask) Owner() string    { return g.hook }
func (g *gatedTask) Starting(s Start) { g.key = s.Key }

func (g *gatedTask) Policy() Policy {
	if g.hook == "y" {
		return Policy{MinDelay: modelDelay, MaxDelay: modelDelay, Limit: 3}
	}
	return Policy{}
}

func (g *gatedTask) Absorb(behind Task) bool {
	next := behind.(*gatedTask)
	if g.hook != next.hook || g.hook == "-" || g.most > 0 && len(g.events)+len(next.events) > g.most {
		return false
	}
	g.events = append(g.events, next.events...)
	return true
}

func (g *gatedTask) Run(ctx context.Context) error {
	gate := make(chan error)
	g.gates.mu.Lock()
	g.gates.tasks[g.queue+"/"+g.key] = g
	g.gates.mu.Unlock()
	g.gates.set(g.queue, g.key, gate)
	defer g.gates.set(g.queue, g.key, nil)
	select {
	case err := <-gate:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// playModel returns what play should.
func playModel(steps []step) (seen []string) {
	m := &model{queues: []*modelQueue{{name: "main", width: 1}, {name: "side", width: 2}}}
	for _, q := range m.queues {
		q.model, q.lanes = m, map[string]*modelLane{}
	}
	for i, s := range steps {
		q := m.queues[0]
		if s.queue == "side" {
			q = m.queues[1]
		}
		l := q.lanes[s.key]
		if l == nil {
			l = &modelLane{seq: m.next()}
		}
		switch t := (&modelTask{hook: s.hook, events: []int{i}}); s.kind {
		case "halve":
			if l.runs {
				l.tasks[0].halve()
			}
		case "replace":
			q.lanes[s.key] = l
			q.replace(l, s.hook)
			q.add(l, t, "add")
		case "add", "first":
			q.lanes[s.key] = l
			q.add(l, t, s.kind)
		case "finish":
			if l.runs {
				q.split(l)
				q.leave(l)
			}
		case "fail", "giveup":
			if l.runs {
				q.fail(l, s.kind == "giveup")
			}
		case "block":
			if l.runs {
				q.split(l)
				q.block(l)
			}
		case "signal":
			if l.blocked {
				q.ready(l)
			}
		case "skip":
			if !l.runs && len(l.tasks) > 0 && l.tasks[0].failures > 0 {
				q.leave(l)
			}
		case "drop":
			m.each(func(q *modelQueue, l *modelLane) { q.extract(l, s.hook) })
		case "retry":
			if l.sleeps {
				q.ready(l)
			}
		case "repeat":
			m.each(func(q *modelQueue, l *modelLane) {
				switch {
				case len(l.tasks) == 0 || l.tasks[0].hook != s.hook:
				case l.runs:
					l.outdated = true
				case l.sleeps:
					l.tasks[0].failures--
					q.ready(l)
				}
			})
		case "wait": // all delays are over, the shorter and older first
			m.each(func(q *modelQueue, l *modelLane) {
				if l.collects = false; l.collecting {
					q.ready(l)
				}
			})
			m.settle()
			m.waits++
			m.each(func(q *modelQueue, l *modelLane) {
				if l.sleeps {
					q.ready(l)
				}
			})
		case "pause":
			q.paused = !q.paused
		}
		m.settle()
		seen = append(seen, m.String())
	}
	return seen
}

type model struct {
	queues    []*modelQueue
	exhausted []string
	seq       int
	// waits counts the times that have passed.
	waits int
}

type modelQueue struct {
	*model
	name   string
	width  int
	paused bool
	lanes  map[string]*modelLane
}

// modelLane has its tasks. One of runs, sleeps and blocked may be true, of the first task. Seq is when that began, or
// when the lane became ready.
type modelLane struct {
	tasks                 []*modelTask
	runs, sleeps, blocked bool
	// taken: the first task runs or has run. outdated: a failure of this run does not count.
	taken, outdated bool
	seq             int
	// began is the time when the last run began, last its hook. If it took some, as the second one of the hook at least, the lane collects
	// events for another time, if it has those of one task.
	began                int
	last                 string
	collects, collecting bool
}

type modelTask struct {
	hook     string
	events   []int
	failures int
	// first is true for a task that goes before others that are added first.
	first bool
	// rest is what the run has left, and most the number of events from then on.
	rest *modelTask
	most int
}

func (m *model) next() int { m.seq++; return m.seq }

// each hands out all lanes, queue by queue, in the order in which they became ready.
func (m *model) each(do func(*modelQueue, *modelLane)) {
	for _, q := range m.queues {
		lanes := slices.Collect(maps.Values(q.lanes))
		slices.SortFunc(lanes, func(a, b *modelLane) int { return a.seq - b.seq })
		for _, l := range lanes {
			do(q, l)
		}
	}
}

// ready makes a lane wait for its turn.
func (q *modelQueue) ready(l *modelLane) {
	l.runs, l.sleeps, l.blocked, l.collecting, l.seq = false, false, false, false, q.next()
}

// coalesces reports whether all tasks of the lane are one that collects.
func (l *modelLane) coalesces() bool {
	return !l.taken && len(l.tasks) == 1 && l.tasks[0].hook == l.last && modelCollects(l.tasks[0].hook, l.tasks[0].events)
}

func (q *modelQueue) add(l *modelLane, t *modelTask, how string) {
	defer func() {
		if l.collecting && !l.coalesces() {
			q.ready(l)
		}
	}()
	empty := len(l.tasks) == 0
	if empty && !l.collects {
		l.last = ""
	}
	if how == "first" {
		t.first = true
		at := 0
		for at < len(l.tasks) && (at == 0 && l.taken || l.tasks[at].first) {
			at++
		}
		l.tasks = slices.Insert(l.tasks, at, t)
	} else {
		if last := len(l.tasks) - 1; (last > 0 || last == 0 && !l.taken) && l.tasks[last].absorbs(t) {
			return
		}
		l.tasks = append(l.tasks, t)
	}
	if empty {
		q.ready(l)
	}
}

// replace takes the last event of a hook that waits, if its number is even.
func (q *modelQueue) replace(l *modelLane, hook string) {
	for i := len(l.tasks) - 1; i >= 0; i-- {
		t := l.tasks[i]
		if i == 0 && l.taken {
			return
		}
		if t.hook != hook {
			continue
		}
		if last := len(t.events) - 1; t.events[last]%2 == 0 {
			t.events = t.events[:last]
		}
		if len(t.events) == 0 {
			l.tasks = slices.Delete(l.tasks, i, i+1)
			if i == 0 && len(l.tasks) > 0 {
				q.ready(l)
			}
		}
		return
	}
}

// halve makes the run leave half of the events.
func (t *modelTask) halve() {
	if half := len(t.events) / 2; half > 0 && t.rest == nil {
		t.rest = &modelTask{hook: t.hook, events: slices.Clone(t.events[half:]), failures: t.failures, first: true}
		t.events, t.most = t.events[:half:half], half
	}
}

// split puts what the run has left behind the first task.
func (q *modelQueue) split(l *modelLane) {
	head := l.tasks[0]
	if head.rest != nil {
		l.tasks = slices.Insert(l.tasks, 1, head.rest)
	}
	head.rest = nil
}

// leave removes the first task.
func (q *modelQueue) leave(l *modelLane) {
	q.ended(l)
	l.tasks, l.taken = l.tasks[1:], false
	q.ready(l)
}

// ended notes whether a run of the first task has taken some time, if it runs.
func (q *modelQueue) ended(l *modelLane) {
	if l.runs {
		head, last := l.tasks[0], l.last
		if l.collects, l.last = false, ""; modelCollects(head.hook, head.events) {
			l.collects, l.last = head.hook == last && q.waits > l.began, head.hook
		}
	}
}

// fail ends a run of the first task.
func (q *modelQueue) fail(l *modelLane, giveUp bool) {
	q.split(l)
	head := l.tasks[0]
	if l.outdated {
		q.ready(l)
		l.collects, l.last = false, ""
		return
	}
	head.failures++
	if giveUp || head.hook == "y" && head.failures >= 3 {
		q.exhausted = append(q.exhausted, head.String())
		q.leave(l)
		return
	}
	q.ready(l)
	l.sleeps, l.collects, l.last = true, false, ""
}

// block lets the first task, whose run has not begun, wait for a signal.
func (q *modelQueue) block(l *modelLane) {
	q.ready(l)
	l.blocked = true
}

// extract removes the tasks of a hook, but not one that runs.
func (q *modelQueue) extract(l *modelLane, hook string) {
	var kept []*modelTask
	for i, t := range l.tasks {
		if t.hook != hook || i == 0 && l.runs {
			kept = append(kept, t)
		}
	}
	headLeft := len(l.tasks) > 0 && (len(kept) == 0 || kept[0] != l.tasks[0])
	l.tasks = kept
	if headLeft {
		l.taken = false
		q.ready(l)
	}
}

// settle starts lanes in the order in which they became ready.
func (m *model) settle() {
	for _, q := range m.queues {
		maps.DeleteFunc(q.lanes, func(key string, l *modelLane) bool { return key != "" && len(l.tasks) == 0 })
		for {
			var next *modelLane
			running := 0
			for _, l := range q.lanes {
				switch {
				case l.runs:
					running++
				case len(l.tasks) > 0 && !l.sleeps && !l.blocked && !l.collecting && (next == nil || l.seq < next.seq):
					next = l
				}
			}
			if next == nil || q.paused || running >= q.width {
				break
			}
			if next.collecting = next.collects && next.coalesces(); next.collecting {
				continue
			}
			head := next.tasks[0]
			for len(next.tasks) > 1 && head.absorbs(next.tasks[1]) {
				next.tasks = slices.Delete(next.tasks, 1, 2)
			}
			next.runs, next.taken, next.outdated, next.began, head.first = true, true, false, m.waits, false
		}
	}
}

func (t *modelTask) absorbs(behind *modelTask) bool {
	if t.hook != behind.hook || t.hook == "-" || t.most > 0 && len(t.events)+len(behind.events) > t.most {
		return false
	}
	t.events = append(t.events, behind.events...)
	return true
}

func (t *modelTask) String() string { return fmt.Sprint(t.hook, t.events) }

func (m *model) String() string {
	var text strings.Builder
	for _, q := range m.queues {
		fmt.Fprintf(&text, "%s:", q.name)
		for _, key := range slices.Sorted(maps.Keys(q.lanes)) {
			l := q.lanes[key]
			if len(l.tasks) == 0 {
				continue
			}
			fmt.Fprintf(&text, " %s(%s", key, modelPhase(l.runs, l.sleeps, l.collecting))
			for _, t := range l.tasks {
				text.WriteString(" " + t.String())
			}
			text.WriteString(")")
		}
		text.WriteString("; ")
	}
	return text.String() + fmt.Sprint("exhausted ", m.exhausted)
}
