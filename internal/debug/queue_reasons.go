package debug

import (
	"fmt"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// queued is the state from which the reasons in queues are derived.
type queued struct {
	hook   *hook.Hook
	queues []Queue
	// runs returns those of a hook, the latest first.
	runs    func(hook string) []history.Run
	timeout time.Duration
	now     time.Time
}

// shownLanes limits the failed lanes of a hook.
const shownLanes = 5

// inLanes covers the lanes of a keyed queue whose first task is the hook's: those that failed by name, the others as a number.
func (f *queued) inLanes(q Queue) (reasons []Reason) {
	running, waiting := 0, 0
	for _, l := range q.Lanes {
		switch {
		case l.Task.Hook != f.hook.Name:
		case l.Phase == Running:
			running++
		case l.Phase == Sleeping && len(reasons) < shownLanes:
			reasons = append(reasons,
				Reason{ByRetry, true, fmt.Sprintf("queue %q, key %q: %s %s", q.Name, l.Key, l.Task.Description,
					sleeps(l.Failures, "the next", l.Left, l.LastError)),
					"other keys are not held up: shell-operator runs " + f.hook.Name + " shows its last runs"})
		default:
			waiting++
		}
	}
	if running > 0 {
		reasons = append(reasons,
			Reason{ByItsOwnRun, false, fmt.Sprintf("queue %q: %s in flight, of %d at most", q.Name, count(running, "run"), q.Concurrency), ""})
	}
	if waiting > 0 {
		reasons = append(reasons, Reason{InQueue, false,
			fmt.Sprintf("queue %q: %s wait for a free place, of %d in all", q.Name, count(waiting, "lane"), max(q.LaneCount, len(q.Lanes))), ""})
	}
	if more := q.LaneCount - len(q.Lanes); more > 0 && owns(f.hook, q.Name) {
		reasons = append(reasons, Reason{InQueue, false, fmt.Sprintf("queue %q: %d more lanes wait, of any hook", q.Name, more), ""})
	}
	return reasons
}

// reasons covers the queued tasks of the hook.
func (f *queued) reasons() (reasons []Reason) {
	if again := requeues(f.queues, f.hook, f.now); again != nil {
		reasons = append(reasons, Reason{ByRequeue, false, again.String(), ""})
	}
	for _, q := range f.queues {
		if q.Keyed {
			reasons = append(reasons, f.inLanes(q)...)
			continue
		}
		at := slices.IndexFunc(q.Tasks, func(t Task) bool { return t.Hook == f.hook.Name })
		switch {
		case at == 0:
			reasons = append(reasons, f.first(q))
		case at > 0:
			reasons = append(reasons, f.behind(q, at))
		case q.Length > len(q.Tasks) && len(q.Tasks) > 0 && owns(f.hook, q.Name):
			reasons = append(reasons, Reason{ByBacklog, false,
				fmt.Sprintf("queue %q: none of the first %d of its %d tasks is of the hook", q.Name, len(q.Tasks), q.Length), ""})
		}
	}
	return reasons
}

// sleeps is why a task waits for its next attempt: it has failed or, without a failure, its hook has to wait.
func sleeps(failures int, next string, left time.Duration, problem string) string {
	if failures == 0 {
		return fmt.Sprintf("may not begin yet, %s attempt is in %s at the latest", next, short(left))
	}
	return fmt.Sprintf("has failed %s, %s attempt is in %s: %s", times(failures), next, short(left), OneLine(problem))
}

// first covers a task of the hook at the head of its queue.
func (f *queued) first(q Queue) Reason {
	text := fmt.Sprintf("queue %q: its task is the first of %d: %s", q.Name, q.Length, q.Tasks[0].Description)
	switch q.Phase {
	case Running:
		return f.running(q, text)
	case Sleeping:
		return Reason{ByRetry, true, fmt.Sprintf("%s; it %s", text, sleeps(q.Failures, "the next", q.Left, q.LastError)),
			"fix the hook or what it depends on: shell-operator runs " + f.hook.Name + " shows its last runs"}
	case Waiting:
		s := f.hook.Settings
		if s.MinInterval == 0 {
			return Reason{InQueue, true, text + "; it waits until the snapshots have the hook's own changes, 5 s at most", ""}
		}
		return Reason{ByRateLimit, true, fmt.Sprintf("%s; it waits for the hook's rate limit (executionMinInterval %s, executionBurst %d)", text,
			s.MinInterval, s.Burst), ""}
	case Stopped:
		return Reason{ByShutdown, true, text + "; the operator is shutting down", ""}
	}
	return Reason{InQueue, false, text + "; it is about to start", ""}
}

func (f *queued) running(q Queue, text string) Reason {
	id, applying := "", false
	for _, r := range f.runs(f.hook.Name) {
		if r.Status == history.Running && r.Queue == q.Name {
			parts := r.Parts()
			id, applying = " as "+r.ID, parts[len(parts)-1].Name == history.Applying
		}
	}
	text = fmt.Sprintf("%s; it has been running%s for %s", text, id, short(f.now.Sub(q.Since)))
	if applying { // time limits are those of the process
		return Reason{ByItsOwnRun, false, text + "; the hook has ended, the operator applies its output", ""}
	}
	limit := f.timeout
	if own := f.hook.Settings.ExecutionTimeout; own != nil {
		limit = *own
	}
	if limit > 0 {
		return Reason{ByItsOwnRun, false, fmt.Sprintf("%s; it is ended after %s", text, limit), ""}
	}
	return Reason{ByItsOwnRun, false, text, "if it hangs, set settings.executionTimeout of the hook or --hook-timeout"}
}

// behind covers a task of the hook that has other tasks in front of it.
func (f *queued) behind(q Queue, at int) Reason {
	head := q.Tasks[0]
	text := fmt.Sprintf("queue %q: its task is number %d of %d, behind %s", q.Name, at+1, q.Length, head.Description)
	whose := "the hook " + head.Hook
	if head.Hook == f.hook.Name {
		whose = "the hook"
	}
	const separate = "give the binding a queue of its own"
	switch q.Phase {
	case Sleeping:
		return Reason{InQueue, true, fmt.Sprintf("%s, which %s", text, sleeps(q.Failures, "its next", q.Left, q.LastError)),
			"fix " + whose + ", or " + separate}
	case Running:
		return Reason{InQueue, true, fmt.Sprintf("%s, which has been running for %s", text, short(f.now.Sub(q.Since))),
			"to run independently of other hooks, " + separate}
	case Waiting:
		return Reason{InQueue, true, text + ", which waits for its rate limit or its own changes", separate}
	case Stopped:
		return Reason{ByShutdown, true, text + "; the operator is shutting down", ""}
	}
	return Reason{InQueue, true, text, ""}
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
