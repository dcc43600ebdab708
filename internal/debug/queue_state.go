package debug

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run/pending"
)

// Queue is the state of a queue, as the status shows it.
type Queue struct {
	Name  string `json:"name"`
	Tasks int    `json:"tasks"`
	// Phase is the phase of a FIFO queue's first task, and has lasted For. A keyed queue is Running if any lane runs.
	Phase queue.Phase      `json:"phase"`
	For   history.Duration `json:"for"`
	// Head names the first task.
	Head string `json:"head,omitempty"`
	// Failures and RetryIn describe the first task; in a keyed queue the lane that is retried next.
	Failures int              `json:"failures,omitempty"`
	RetryIn  history.Duration `json:"retryIn,omitempty"`
	// Lanes is the number of lanes of a keyed queue; Running of them run, Delayed wait for their next attempt.
	Lanes    int       `json:"lanes,omitempty"`
	Running  int       `json:"running,omitempty"`
	Delayed  int       `json:"delayed,omitempty"`
	Paused   bool      `json:"paused,omitempty"`
	Requeues *Requeues `json:"requeues,omitempty"`

	// What follows is of which reasons and other answers are made. Status is the phase in the words of dumps.
	Status      string `json:"-"`
	Keyed       bool   `json:"-"`
	Concurrency int    `json:"-"`
	// Matching is the number of lanes whose keys contain the text of the request; without one, of all.
	Matching int `json:"-"`
	// FirstLanes are the first lanes: those in trouble come first. A FIFO queue with tasks is one, and FirstTasks are its first tasks.
	FirstLanes []Lane `json:"-"`
	FirstTasks []Task `json:"-"`
	// Due is what hooks get again in the queue.
	Due []pending.Due `json:"-"`
}

// Requeues are events that are delivered again, Objects of them about one object each: the first one after Next.
type Requeues struct {
	Events  int              `json:"events"`
	Objects int              `json:"objects"`
	Next    history.Duration `json:"next"`
}

// String is a sentence.
func (r *Requeues) String() string {
	what := Count(r.Events, "object")
	if r.Objects < r.Events {
		what = Count(r.Events, "event")
	}
	if r.Events == 1 {
		return what + " is delivered again in " + r.Next.String()
	}
	return what + " are delivered again, the next in " + r.Next.String()
}

// requeues are the requeues of a hook, or of all hooks when it is nil; nil without any.
func requeues(queues []Queue, h *hook.Hook) (sum *Requeues) {
	for _, q := range queues {
		for _, d := range q.Due {
			if h != nil && d.Hook != h {
				continue
			}
			next := history.Duration(max(0, time.Until(d.Next)).Round(100 * time.Millisecond))
			if sum == nil {
				sum = &Requeues{Next: next}
			}
			sum.Events, sum.Objects, sum.Next = sum.Events+d.Events, sum.Objects+d.Objects, min(sum.Next, next)
		}
	}
	return sum
}

// Lane is a lane with its first task.
type Lane struct {
	Key   string           `json:"key,omitempty"`
	Tasks int              `json:"tasks"`
	Phase queue.Phase      `json:"phase"`
	For   history.Duration `json:"for"`
	// Failures is how often the first task has failed, Error the beginning of the last error; RetryIn is the time until its next attempt.
	Failures int              `json:"failures,omitempty"`
	RetryIn  history.Duration `json:"retryIn,omitempty"`
	Error    string           `json:"error,omitempty"`
	// Until is when a lane that lets events collect runs. First is the first event of a task that has failed, in words.
	Until time.Time `json:"-"`
	First string    `json:"-"`
	Task
}

// doing is what the first task does or waits for, to follow a name of it.
func (l *Lane) doing() string {
	text := ""
	if l.Failures > 0 {
		text = "has failed " + times(l.Failures) + ", the next attempt "
	}
	switch l.Phase {
	case queue.Running:
		return text + "has been running for " + short(time.Duration(l.For))
	case queue.Collecting:
		return "collects events until " + clock(l.Until)
	case queue.Waiting:
		return text + "waits for the rate limit of the hook, or up to 5 s for its own changes"
	case queue.Stopped:
		return text + "does not begin, the operator is shutting down"
	case queue.Idle:
		return text + "waits for its turn"
	}
	if text == "" {
		text = "may not begin yet, it is tried again at the latest "
	} else {
		text += "is "
	}
	return text + "in " + short(time.Duration(l.RetryIn))
}

// clock is a moment that is near.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000Z") }

// why is doing with the error of the last attempt.
func (l *Lane) why() string { return l.doing() + colon(OneLine(l.Error)) }

// Task waits in a queue, or runs.
type Task struct {
	// Hook, Event and Binding are empty for work of the operator itself.
	Hook    string `json:"hook,omitempty"`
	Event   string `json:"event,omitempty"`
	Binding string `json:"binding,omitempty"`
	// About is the description of dumps.
	About string `json:"about,omitempty"`
	// ID numbers the tasks since the start; empty for work of the operator itself.
	ID string `json:"-"`
}

// Head names the task of a hook by the binding, and work of the operator itself by its description.
func (t *Task) Head() string {
	if t.Hook == "" {
		return t.About
	}
	return strings.Join(slices.Compact([]string{t.Hook, t.Event, t.Binding}), " · ")
}

// named is the task in the message of an action: one of the same description is another one.
func (t *Task) named() string {
	if t.ID == "" {
		return t.About
	}
	return "task " + t.ID + " " + t.Head()
}

// queueReader copies the states of queues; what it costs is what it shows.
type queueReader interface {
	// Queues are all queues, main first, each with at most limit tasks and lanes.
	Queues(limit int) []Queue
	// Queue is one of them, with the lanes whose key contains a text, or else with those in trouble first.
	Queue(name, text string, limit int) (Queue, bool)
	// Lane is a lane that has tasks.
	Lane(queue, key string) (Lane, bool)
}

// QueueSet reads a set of queues, and what is queued again later.
type QueueSet struct {
	*queue.Set
	Requeues func() []pending.Due
	// Removed reports whether a hook is not active any longer.
	Removed func(*hook.Hook) bool
}

// Queues copies what is to be known under the lock of each queue, because tasks change with merges.
func (r QueueSet) Queues(limit int) (all []Queue) {
	due := r.Requeues()
	for _, name := range r.Names(hook.MainQueue) {
		if q, ok := r.Queue(name, "", limit); ok {
			q.Due = slices.DeleteFunc(slices.Clone(due), func(d pending.Due) bool { return d.Queue != name })
			q.Requeues = requeues([]Queue{q}, nil)
			all = append(all, q)
		}
	}
	return all
}

// Queue copies one queue. One that is paused may have had no task.
func (r QueueSet) Queue(name, text string, limit int) (q Queue, ok bool) {
	ok = r.Look(name, text, limit, func(s queue.State, lanes []queue.Lane) {
		q = queueOf(s, lanes, limit)
		r.noteRemoved(&q, lanes)
	})
	if !ok && slices.Contains(r.PausedQueues(), name) {
		return Queue{Name: name, Paused: true, Status: "paused"}, true
	}
	return q, ok
}

// noteRemoved names the runs in flight of hooks that a reload has removed or changed.
func (r QueueSet) noteRemoved(q *Queue, lanes []queue.Lane) {
	for i, l := range lanes {
		for head := range l.All() {
			if t, ok := head.(lifecycle.Task); ok && l.Phase == queue.Running && r.Removed(t.Hook()) {
				note := fmt.Sprintf(" (of a hook that was removed or changed: shell-operator runs show %s)", t.ID())
				if q.FirstLanes[i].About += note; i == 0 {
					q.Head += note
				}
			}
			break
		}
	}
}

// Lane copies one lane.
func (r QueueSet) Lane(queueName, key string) (l Lane, ok bool) {
	ok = r.LookLane(queueName, key, func(lane queue.Lane) { l = laneOf(lane) })
	return l, ok
}

func queueOf(s queue.State, lanes []queue.Lane, limit int) Queue {
	q := Queue{Name: s.Name, Tasks: s.Length, Phase: s.Phase, For: since(s.Since), Failures: s.Failures,
		RetryIn: history.Duration(s.Left), Paused: s.Paused, Status: s.Status(), Keyed: s.Keyed, Concurrency: s.Concurrency,
		Matching: s.Matching}
	if q.Keyed {
		q.Lanes, q.Running, q.Delayed = s.Lanes, s.Running, s.Delayed
		q.Status = fmt.Sprintf("%d of at most %d runs in flight, %d of %d lanes delayed", s.Running, s.Concurrency, s.Delayed, s.Lanes)
		q.Failures, q.RetryIn = s.Retry.Failures, history.Duration(s.Retry.Left)
	}
	if q.Paused {
		q.Status = strings.TrimPrefix(q.Status+", paused", ", ")
	}
	for _, l := range lanes {
		q.FirstLanes = append(q.FirstLanes, laneOf(l))
		for t := range l.All() {
			if q.Keyed || limit >= 0 && len(q.FirstTasks) >= limit {
				break
			}
			q.FirstTasks = append(q.FirstTasks, describe(t))
		}
	}
	if len(q.FirstLanes) > 0 {
		q.Head = q.FirstLanes[0].Head()
	}
	return q
}

// since is how long ago a time was; 0 for none.
func since(t time.Time) history.Duration {
	if t.IsZero() {
		return 0
	}
	return history.Duration(time.Since(t))
}

// shownError limits the error of a lane: an answer has many.
const shownError = 500

// laneOf is a lane with its first task.
func laneOf(l queue.Lane) Lane {
	shown := Lane{Key: l.Key, Tasks: l.Tasks, Phase: l.Phase, For: since(l.Since), Failures: l.Failures,
		RetryIn: history.Duration(l.Left), Error: history.Cut(l.LastError, shownError), Until: l.Until}
	for t := range l.All() {
		shown.Task = describe(t)
		if t, ok := t.(lifecycle.Task); ok && l.Failures > 0 {
			shown.First = strings.Join(t.Describe()[:min(1, len(t.Describe()))], "")
		}
		break
	}
	return shown
}

func describe(t queue.Task) Task {
	shown := Task{About: fmt.Sprint(t)}
	if t, ok := t.(lifecycle.Task); ok {
		shown.Hook, shown.Event, shown.Binding, shown.ID = t.Hook().Name, t.EventType(), t.Binding(), t.ID()
	}
	return shown
}
