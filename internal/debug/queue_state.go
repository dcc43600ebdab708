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

// Phase is the state of a queue.
type Phase string

const (
	Idle     Phase = ""
	Waiting  Phase = "waiting"
	Running  Phase = "running"
	Sleeping Phase = "sleeping"
	Stopped  Phase = "stopped"
)

// Queue is the state of a queue.
type Queue struct {
	Name   string
	Length int
	Phase  Phase
	// Since is when the phase began, Left how long it still lasts if it is Sleeping.
	Since time.Time
	Left  time.Duration
	// Status is the phase in the words of dumps.
	Status string
	// Failures and LastError are those of the first task; in a keyed queue, with Left, those of the lane that is retried next.
	Failures  int
	LastError string
	// Tasks may be only the first ones. In a keyed queue they are the first ones of its lanes.
	Tasks []Task
	// Paused: no run begins.
	Paused bool
	// Keyed queues have Lanes with keys; their Phase is Running if any lane runs.
	Keyed       bool
	Concurrency int
	// LaneCount, Running and Delayed count lanes. Lanes may be only the first ones: those in trouble come first.
	LaneCount, Running, Delayed int
	Lanes                       []Lane
	// Requeues are what hooks get again in the queue.
	Requeues []pending.Due
}

// Requeues are events that are delivered again, Objects of them about one object each: the first one after Next.
type Requeues struct {
	Events  int              `json:"events"`
	Objects int              `json:"objects"`
	Next    history.Duration `json:"next"`
}

// String is a sentence.
func (r *Requeues) String() string {
	what := count(r.Events, "object")
	if r.Objects < r.Events {
		what = count(r.Events, "event")
	}
	if r.Events == 1 {
		return what + " is delivered again in " + r.Next.String()
	}
	return what + " are delivered again, the next in " + r.Next.String()
}

// requeues are those of a hook, or of all hooks when it is nil; nil without any.
func requeues(queues []Queue, h *hook.Hook, now time.Time) (sum *Requeues) {
	for _, q := range queues {
		for _, d := range q.Requeues {
			if h != nil && d.Hook != h {
				continue
			}
			next := history.Duration(max(0, d.Next.Sub(now)).Round(100 * time.Millisecond))
			if sum == nil {
				sum = &Requeues{Next: next}
			}
			sum.Events, sum.Objects, sum.Next = sum.Events+d.Events, sum.Objects+d.Objects, min(sum.Next, next)
		}
	}
	return sum
}

// Lane is the part of a keyed queue for one key.
type Lane struct {
	Key       string
	Length    int
	Phase     Phase
	Since     time.Time
	Left      time.Duration
	Failures  int
	LastError string
	// Task is the first one.
	Task Task
}

// Task waits in a queue, or runs.
type Task struct {
	// Description is that of dumps.
	Description string
	// Hook, Type and Binding are empty for work of the operator itself.
	Hook, Type, Binding string
	// ID is that of the task among all since the start; empty for work of the operator itself.
	ID string
}

// named is the task in the message of an action: one of the same description is another one.
func (t *Task) named() string {
	if t.ID == "" {
		return t.Description
	}
	return "task " + t.ID + " " + t.Description
}

// queueReader copies the states of queues; what it costs is what it shows.
type queueReader interface {
	// Queues are all queues, main first, each with at most limit tasks and lanes; Queue is one of them, Lane one lane that has tasks.
	Queues(limit int) []Queue
	Queue(name string, limit int) (Queue, bool)
	Lane(queue, key string) (Lane, bool)
	// Lanes is a queue with at most limit lanes: those in trouble first, or those whose key contains a text, which matching counts.
	Lanes(name, text string, limit int) (q Queue, matching int, ok bool)
}

// QueueSet reads a set of queues, and what is queued again later.
type QueueSet struct {
	*queue.Set
	Requeues func() []pending.Due
}

var phases = map[queue.Phase]Phase{
	queue.Idle: Idle, queue.Waiting: Waiting, queue.Running: Running, queue.Sleeping: Sleeping, queue.Stopped: Stopped,
}

// Queues copies what is to be known under the lock of each queue, because tasks change with merges.
func (r QueueSet) Queues(limit int) (all []Queue) {
	r.Look(hook.MainQueue, limit, func(s queue.State, lanes []queue.Lane) { all = append(all, queueOf(s, lanes, limit)) })
	for _, d := range r.Requeues() {
		if i := slices.IndexFunc(all, func(q Queue) bool { return q.Name == d.Queue }); i >= 0 {
			all[i].Requeues = append(all[i].Requeues, d)
		}
	}
	paused := r.PausedQueues()
	for _, name := range paused { // before it has had a task
		if !slices.ContainsFunc(all, func(q Queue) bool { return q.Name == name }) {
			all = append(all, Queue{Name: name, Paused: true, Status: "paused"})
		}
	}
	return all
}

// Queue copies one queue.
func (r QueueSet) Queue(name string, limit int) (q Queue, ok bool) {
	ok = r.LookQueue(name, limit, func(s queue.State, lanes []queue.Lane) { q = queueOf(s, lanes, limit) })
	if !ok && slices.Contains(r.PausedQueues(), name) {
		return Queue{Name: name, Paused: true, Status: "paused"}, true
	}
	return q, ok
}

// Lanes copies lanes of one queue.
func (r QueueSet) Lanes(name, text string, limit int) (q Queue, matching int, ok bool) {
	ok = r.Find(name, text, limit, func(s queue.State, n int, lanes []queue.Lane) { q, matching = queueOf(s, lanes, 1), n })
	if !ok && slices.Contains(r.PausedQueues(), name) {
		return Queue{Name: name, Paused: true, Status: "paused"}, 0, true
	}
	return q, matching, ok
}

// Lane copies one lane.
func (r QueueSet) Lane(queueName, key string) (l Lane, ok bool) {
	ok = r.LookLane(queueName, key, func(lane queue.Lane) { l = laneOf(lane) })
	return l, ok
}

func queueOf(s queue.State, lanes []queue.Lane, limit int) Queue {
	q := Queue{
		Name: s.Name, Length: s.Length, Phase: phases[s.Phase], Since: s.Since, Status: s.Status(), Paused: s.Paused,
		Keyed: s.Keyed, Concurrency: s.Concurrency, Running: s.Running, Delayed: s.Delayed, LaneCount: s.Lanes,
	}
	if q.Keyed {
		q.Status = fmt.Sprintf("%d of at most %d runs in flight, %d of %d lanes delayed", s.Running, s.Concurrency, s.Delayed, s.Lanes)
		q.Left, q.Failures, q.LastError = s.Retry.Left, s.Retry.Failures, s.Retry.LastError
	} else {
		q.Left, q.Failures, q.LastError = s.Left, s.Failures, s.LastError
	}
	if q.Paused {
		q.Status = strings.TrimPrefix(q.Status+", paused", ", ")
	}
	if q.Keyed {
		q.Lanes = make([]Lane, 0, len(lanes))
	}
	for _, l := range lanes {
		if q.Keyed {
			q.Lanes = append(q.Lanes, laneOf(l))
		}
		for t := range l.All() {
			if limit >= 0 && len(q.Tasks) >= limit {
				break
			}
			q.Tasks = append(q.Tasks, describe(t))
			if q.Keyed {
				break
			}
		}
	}
	return q
}

// laneOf is a lane with its first task.
func laneOf(l queue.Lane) Lane {
	shown := Lane{Key: l.Key, Length: l.Tasks, Phase: phases[l.Phase], Since: l.Since, Left: l.Left, Failures: l.Failures,
		LastError: l.LastError}
	for t := range l.All() {
		shown.Task = describe(t)
		break
	}
	return shown
}

func describe(t queue.Task) Task {
	shown := Task{Description: fmt.Sprint(t)}
	if t, ok := t.(lifecycle.Task); ok {
		shown.Hook, shown.Type, shown.Binding, shown.ID = t.Hook().Name, t.EventType(), t.Binding(), t.ID()
	}
	return shown
}
