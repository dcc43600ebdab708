package debug

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
)

// queued is the state from which the reasons in queues are derived.
type queued struct {
	hook   *hook.Hook
	queues []Queue
	// runs returns the runs of a hook, the latest first.
	runs    func(hook string) []history.Run
	timeout time.Duration
}

// shownLanes limits the failed lanes of a hook.
const shownLanes = 5

// inLanes covers the lanes of a keyed queue whose first task is the hook's: those that failed by name, the others as a number.
func (f *queued) inLanes(q *Queue) (reasons []Reason) {
	running, collecting, waiting, until := 0, 0, 0, time.Time{}
	for _, l := range q.FirstLanes {
		switch {
		case l.Hook != f.hook.Name:
		case l.Phase == queue.Running:
			running++
		case l.Phase == queue.Collecting:
			collecting++
			if l.Until.After(until) {
				until = l.Until
			}
		case l.Phase == queue.Sleeping && len(reasons) < shownLanes:
			reasons = append(reasons, Reason{ByRetry, true, fmt.Sprintf("queue %q, key %q: %s %s", q.Name, l.Key, l.Head(), l.why()),
				"other keys are not held up: shell-operator runs " + f.hook.Name + " shows its last runs"})
		default:
			waiting++
		}
	}
	if running > 0 {
		reasons = append(reasons,
			Reason{ByItsOwnRun, false, fmt.Sprintf("queue %q: %s in flight, of %d at most", q.Name, Count(running, "run"), q.Concurrency), ""})
	}
	if collecting > 0 {
		reasons = append(reasons, Reason{InQueue, false,
			fmt.Sprintf("queue %q: lanes that collect events until %s at the latest: %d", q.Name, clock(until), collecting), ""})
	}
	if waiting > 0 {
		reasons = append(reasons, Reason{InQueue, false,
			fmt.Sprintf("queue %q: %s wait for a free place, of %d in all", q.Name, Count(waiting, "lane"), max(q.Lanes, len(q.FirstLanes))), ""})
	}
	return reasons
}

// reasons covers the queued tasks of the hook.
func (f *queued) reasons() (reasons []Reason) {
	if again := requeues(f.queues, f.hook); again != nil {
		reasons = append(reasons, Reason{ByRequeue, false, again.String(), ""})
	}
	for i := range f.queues {
		q := &f.queues[i]
		if q.Keyed {
			reasons = append(reasons, f.inLanes(q)...)
			continue
		}
		at := slices.IndexFunc(q.FirstTasks, func(t Task) bool { return t.Hook == f.hook.Name })
		switch {
		case at == 0:
			reasons = append(reasons, f.first(q))
		case at > 0:
			reasons = append(reasons, f.behind(q, at))
		}
	}
	return reasons
}

// first covers a task of the hook at the head of its queue.
func (f *queued) first(q *Queue) Reason {
	l := &q.FirstLanes[0]
	r := Reason{InQueue, true, fmt.Sprintf("queue %q: its task is the first of %d: %s; it %s", q.Name, q.Tasks, q.Head, l.why()), ""}
	switch s := f.hook.Settings; l.Phase {
	case queue.Running:
		r.Kind, r.Blocks = ByItsOwnRun, false
		f.running(q, &r)
	case queue.Sleeping:
		r.Kind, r.Hint = ByRetry, "fix the hook or what it depends on: shell-operator runs "+f.hook.Name+" shows its last runs"
	case queue.Waiting:
		if s.MinInterval > 0 {
			r.Kind = ByRateLimit
			r.Text += fmt.Sprintf(" (executionMinInterval %s, executionBurst %d)", s.MinInterval, s.Burst)
		}
	case queue.Stopped:
		r.Kind = ByShutdown
	case queue.Idle, queue.Collecting:
		r.Blocks = false
	}
	return r
}

// running adds the run and its time limit.
func (f *queued) running(q *Queue, r *Reason) {
	id := ""
	for _, run := range f.runs(f.hook.Name) {
		if run.Status != history.Running || run.Queue != q.Name {
			continue
		}
		id = run.ID
		r.Text += ", run " + id
		if run.Applies() {
			r.Text += "; the hook has ended, the operator applies its output"
			return
		}
	}
	r.Hint = "if it hangs: shell-operator runs stop " + cmp.Or(id, "RUN")
	limit := f.timeout
	if own := f.hook.Settings.ExecutionTimeout; own != nil {
		limit = *own
	}
	if limit > 0 {
		r.Text += fmt.Sprintf("; it is ended after %s", limit)
	} else {
		r.Hint += ", and set settings.executionTimeout of the hook or --hook-timeout"
	}
}

// behind covers a task of the hook that has other tasks in front of it.
func (f *queued) behind(q *Queue, at int) Reason {
	l := &q.FirstLanes[0]
	r := Reason{InQueue, true, fmt.Sprintf("queue %q: its task is number %d of %d, behind %s, which %s", q.Name, at+1, q.Tasks, q.Head,
		l.why()), "give the binding a queue of its own"}
	switch {
	case l.Phase == queue.Stopped:
		r.Kind, r.Hint = ByShutdown, ""
	case l.Failures > 0:
		r.Hint = "fix the hook " + l.Hook + ", or " + r.Hint
	}
	return r
}

// owns reports whether a binding of a hook names a queue.
func owns(h *hook.Hook, queue string) bool {
	for _, b := range h.Bindings() {
		if b.Queue == queue {
			return true
		}
	}
	return false
}
