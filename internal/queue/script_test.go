package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestScripts runs the files in testdata. A file has blocks, with an empty line between them:
//
//	# a comment
//	add main a
//	tick 5s
//	----
//	0s main: run a
//
// Above the dashes are commands, below is what happened until the last of them. A task with a number, as x1,
// is an event of a hook: x1 absorbs x2 and is x1+x2 then. A task without absorbs nothing. QUEUE may be queue/key. Commands are:
//
//	add QUEUE TASK        append a task
//	addfirst QUEUE TASK   put a task before those that wait
//	width QUEUE N         it may have so many runs in flight
//	slots N               so many runs may be in flight in all queues together
//	takes TASK 3s         its runs take that long
//	ready TASK 3s         it may start only that long after its turn has come
//	initial TASK          it holds initial objects only
//	policy HOOK 1s 8s 3   delays and limit of the attempts of its tasks
//	fail TASK [N]         its next run fails, or the next N
//	giveup TASK           its next run fails, and there must be no other
//	after TASK 3s         its next run fails, and that is the delay before the next
//	panic TASK            its next run panics
//	block TASK 1m         its next run does not begin before "signal TASK", or so long
//	coalesce              lanes let events collect
//	urgent TASK           it does not wait for others
//	tokens TASK           show what Ready reserves for it, and what is given back
//	run                   start the workers
//	stop                  start no runs any more
//	kill                  end the context of runs
//	tick 5s               let time pass
//	dump                  show the queues
//	drop HOOK             drop all events of a hook, and all tasks of that name
//	retry HOOK            end the back-off of the hook's tasks
//	repeat HOOK           end it, and do not count the last attempt
//	skip QUEUE            drop a failed head
//	pause QUEUE           start no runs of a queue until "resume QUEUE"
//	keep [QUEUE...]       let all other queues end
//
// TASK is the first event of a merged task. The time is not real.
func TestScripts(t *testing.T) {
	golden.Scripts(t, "testdata/*.txt", func(t *testing.T, script string) string {
		var got string
		synctest.Test(t, func(t *testing.T) { got = runScript(t, script) })
		return got
	})
}

func runScript(t *testing.T, text string) string {
	w := newWorld(t)
	defer w.end()
	return golden.Blocks(text, func(words []string) {
		w.do(words)
		synctest.Wait()
	}, w.happened)
}

// world is a Set, what its tasks shall do, and what has happened.
type world struct {
	t          *testing.T
	set        *Set
	began      time.Time
	stop, kill context.CancelFunc
	stopped    context.Context
	runs       context.Context
	running    sync.WaitGroup

	mu            sync.Mutex // guards what follows
	events        []happening
	takes, ready  map[string]time.Duration
	fails, panics map[string]int
	decided       map[string]*decidedError
	blocks        map[string]blockedError
	signals       map[string]chan struct{}
	tokens        map[string]bool
	policies      map[string]Policy
	initial       map[string]bool
	urgent        map[string]bool
	shapes        map[string]Shape
}

type happening struct {
	at    time.Duration
	queue string
	text  string
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, began: time.Now(), takes: map[string]time.Duration{}, ready: map[string]time.Duration{},
		fails: map[string]int{}, panics: map[string]int{}, decided: map[string]*decidedError{}, policies: map[string]Policy{},
		initial: map[string]bool{}, shapes: map[string]Shape{}, blocks: map[string]blockedError{}, signals: map[string]chan struct{}{},
		tokens: map[string]bool{}, urgent: map[string]bool{},
	}
	w.stopped, w.stop = context.WithCancel(t.Context())
	w.runs, w.kill = context.WithCancel(t.Context())
	w.set = NewSet(Options{
		Backoff: backoff(5*time.Second, 32*time.Second, func() time.Duration { return 567 * time.Millisecond }),
		Random:  func() float64 { return 0.75 },
		OnFailure: func(f Failed) {
			w.log(label(f.Queue, f.Key), "failure %d of %s: %v; again in %s", f.Failures, f.Task, f.Err, f.Delay)
		},
		OnExhausted: func(f Failed) {
			w.log(label(f.Queue, f.Key), "failure %d of %s: %v; exhausted", f.Failures, f.Task, f.Err)
		},
		OnPanic: func(queue string, task Task, reason any, stack []byte) {
			w.log(queue, "panic of %s: %v", task, reason)
			if !strings.Contains(string(stack), "scriptTask") {
				t.Errorf("the stack does not show the task:\n%s", stack)
			}
		},
		OnEnd: func(queue string) { w.log(queue, "ended") },
	})
	return w
}

func (w *world) end() {
	w.stop()
	w.kill()
	w.running.Wait()
}

func (w *world) do(words []string) {
	command, args := words[0], append(words[1:], "", "")
	queue, key, _ := strings.Cut(args[0], "/")
	duration := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			w.t.Fatalf("%s: %v", words, err)
		}
		return d
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch command {
	case "takes":
		w.takes[args[0]] = duration(args[1])
	case "ready":
		w.ready[args[0]] = duration(args[1])
	case "urgent":
		w.urgent[args[0]] = true
	case "initial":
		w.initial[args[0]] = true
	case "giveup":
		w.decided[args[0]] = &decidedError{giveUp: true}
	case "after":
		w.decided[args[0]] = &decidedError{after: duration(args[1])}
	case "policy":
		limit, _ := strconv.Atoi(words[4])
		w.policies[args[0]] = Policy{MinDelay: duration(words[2]), MaxDelay: duration(words[3]), Limit: limit}
	case "fail":
		times, _ := strconv.Atoi(cmp.Or(args[1], "1"))
		w.fails[args[0]] += times
	case "panic":
		w.panics[args[0]]++
	case "block":
		w.signals[args[0]] = make(chan struct{})
		w.blocks[args[0]] = blockedError{w.signals[args[0]], duration(args[1])}
	case "signal":
		close(w.signals[args[0]])
	case "tokens":
		w.tokens[args[0]] = true
	default:
		w.mu.Unlock()
		defer w.mu.Lock()
		switch command {
		case "add":
			w.set.Add(queue, key, &scriptTask{w, args[0], args[1:2]})
		case "addfirst":
			w.set.AddFirst(queue, key, &scriptTask{w, args[0], args[1:2]})
		case "width":
			width, _ := strconv.Atoi(args[1])
			w.shapes[queue] = Shape{Keyed: true, Concurrency: width}
			w.set.Keep(w.shapes)
		case "coalesce":
			w.set.opts.Coalescing = DefaultCoalescing
		case "slots":
			limit, _ := strconv.Atoi(args[0])
			w.set.slots = &slots{limit: limit}
		case "pause":
			w.set.Pause(queue)
		case "resume":
			w.set.Resume(queue)
		case "skip":
			if f, ok := w.set.Skip(queue, key); ok {
				w.log(args[0], "skipped %s, failed %d times: %v", f.Task, f.Failures, f.Err)
			}
		case "run":
			w.stopped, w.stop = context.WithCancel(w.t.Context())
			w.running.Go(func() {
				_ = w.set.Run(w.stopped, w.runs)
				w.log("", "all queues have ended")
			})
		case "stop":
			w.stop()
		case "kill":
			w.kill()
		case "tick":
			time.Sleep(duration(args[0]))
		case "drop":
			w.set.Edit(func(task Task) bool { return task.(*scriptTask).hook() != args[0] })
		case "keep":
			shapes := map[string]Shape{}
			for _, name := range words[1:] {
				shapes[name] = Shape{}
			}
			w.set.Keep(shapes)
		case "retry":
			w.set.Retry(func(_, _ string, head Task) bool { return head.(*scriptTask).hook() == args[0] })
		case "repeat":
			w.set.Repeat(func(head Task) bool { return head.(*scriptTask).hook() == args[0] })
		case "dump":
			for _, q := range dump(w.set) {
				w.logState(q)
			}
		default:
			w.t.Fatalf("unknown command %q", command)
		}
	}
}

func (w *world) logState(q dumped) {
	text := fmt.Sprintf("has %d", q.Length)
	if q.Status() != "" {
		text += " (" + q.Status() + ")"
	}
	if q.Paused {
		text += " paused"
	}
	for _, l := range q.lanes {
		if l.Key != "" {
			text += fmt.Sprintf(" [%s", l.Key)
		}
		for i, task := range l.tasks {
			text += " " + task
			if i == 0 && l.Failures > 0 {
				text += fmt.Sprintf("[failed %d times: %s]", l.Failures, l.LastError)
			}
		}
		if l.Key != "" {
			text += "]"
		}
	}
	w.log(q.Name, "%s", text)
}

// label names a lane.
func label(queue, key string) string {
	if key == "" {
		return queue
	}
	return queue + "/" + key
}

// decidedError is a failure that decides about the next attempt.
type decidedError struct {
	giveUp bool
	after  time.Duration
}

func (d *decidedError) Error() string                     { return "as it decides" }
func (d *decidedError) GiveUp() bool                      { return d.giveUp }
func (d *decidedError) RetryAfter() (time.Duration, bool) { return d.after, !d.giveUp }

// blockedError is a run that has not begun.
type blockedError struct {
	until <-chan struct{}
	most  time.Duration
}

func (blockedError) Error() string                             { return "not begun" }
func (b blockedError) Until() (<-chan struct{}, time.Duration) { return b.until, b.most }

func (w *world) log(queue, text string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(queue, fmt.Sprintf(text, args...))
}

// note is log for callers that hold mu.
func (w *world) note(queue, text string) {
	w.events = append(w.events, happening{time.Since(w.began), queue, text})
}

// happened returns the new records. At one moment they are sorted by queue, because queues have no order among them.
func (w *world) happened() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.events, func(a, b happening) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.queue, b.queue))
	})
	var lines strings.Builder
	for _, e := range w.events {
		if e.queue != "" {
			e.queue += ": "
		}
		fmt.Fprintf(&lines, "%s %s%s\n", e.at, e.queue, e.text)
	}
	w.events = nil
	return lines.String()
}

// scriptTask behaves as its world specifies.
type scriptTask struct {
	w      *world
	queue  string
	events []string
}

var _, _ = Starter((*scriptTask)(nil)), Collector((*scriptTask)(nil))

func (s *scriptTask) String() string { return strings.Join(s.events, "+") }

func (s *scriptTask) hook() string { return strings.TrimRight(s.events[0], "0123456789") }

func (s *scriptTask) Absorb(behind Task) bool {
	next := behind.(*scriptTask)
	if s.hook() != next.hook() || s.hook() == s.events[0] {
		return false
	}
	s.events = append(s.events, next.events...)
	return true
}

func (s *scriptTask) Owner() string { return s.hook() }

func (s *scriptTask) Policy() Policy {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.w.policies[s.hook()]
}

func (s *scriptTask) Initial() bool {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return !slices.ContainsFunc(s.events, func(name string) bool { return !s.w.initial[name] })
}

// Collects is true for fewer than ten events of a hook that absorbs, without an urgent one.
func (s *scriptTask) Collects() bool {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.hook() != s.events[0] && len(s.events) < 10 && !slices.ContainsFunc(s.events, func(name string) bool { return s.w.urgent[name] })
}

func (s *scriptTask) Starting(start Start) {
	if label, _, _ := strings.Cut(s.queue, "/"); s.queue != label && !strings.HasSuffix(s.queue, "/"+start.Key) {
		s.w.log(s.queue, "%s has the key %q", s, start.Key)
	}
	if start.Waited > 0 {
		s.w.log(s.queue, "%s has waited %s", s, start.Waited)
	}
}

func (s *scriptTask) Ready() (time.Duration, func()) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	wait := s.w.ready[s.events[0]]
	if !s.w.tokens[s.events[0]] {
		return wait, nil
	}
	s.w.note(s.queue, "token for "+s.String())
	return wait, func() { s.w.log(s.queue, "token of %s given back", s) }
}

func (s *scriptTask) Run(ctx context.Context) error {
	s.w.log(s.queue, "run %s", s)
	name := s.events[0]
	s.w.mu.Lock()
	took, fails, panics := s.w.takes[name], s.w.fails[name] > 0, s.w.panics[name] > 0
	decided := s.w.decided[name]
	delete(s.w.decided, name)
	blocked, isBlocked := s.w.blocks[name]
	delete(s.w.blocks, name)
	if panics {
		s.w.panics[name]--
	} else if fails {
		s.w.fails[name]--
	}
	s.w.mu.Unlock()
	if took > 0 {
		select {
		case <-time.After(took):
			s.w.log(s.queue, "end %s", s)
		case <-ctx.Done():
			s.w.log(s.queue, "end %s early", s)
			return ctx.Err()
		}
	}
	if panics {
		panic("boom")
	}
	switch {
	case isBlocked:
		return blocked
	case decided != nil:
		return fmt.Errorf("fails %w", decided)
	case fails:
		return errors.New("no luck")
	}
	return nil
}
