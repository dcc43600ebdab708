package debug

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// queueActor is what commands do to failed tasks.
type queueActor interface {
	// RetryQueue ends the delay of a lane, or of all lanes of a queue, and returns how many it ended.
	RetryQueue(queue, key string, all bool) int
	// SkipTask drops the failed task at the head of a lane, unless it runs.
	SkipTask(queue, key string) (queue.Failed, bool)
}

// QueuesTopic shows queues, retries and skips failed tasks. Timeout is the default time limit of a run; 0 means none.
func QueuesTopic(queues queueReader, do queueActor, runs *history.History, timeout time.Duration) Topic {
	q := &queueTopic{queues, do}
	key := []Flag{{Name: "key", Field: "key", Usage: "lane of a keyed queue", Empty: true}}
	return Topic{
		Name: "queue queues", About: "Show queues and their tasks, retry, skip, pause and resume",
		Routes: []Route{
			{Method: "GET", Path: "/queue/main", About: "the main queue", show: q.main, upstream: true, Command: &Command{
				Use: "queue main", Short: "Show the main queue with its tasks",
				Example: "  shell-operator queue main\n  shell-operator queue main -o yaml",
			}},
			{Method: "GET", Path: "/queue/list", About: "all queues; `?showEmpty=true` includes empty ones", show: q.list, upstream: true},
			{Method: "GET", Path: "/queue/*/lanes",
				About: "the lanes of a keyed queue, at most 200: those in trouble first, or with `?key=` those " +
					"whose key contains a text", show: onQueue(queues, 0, q.showLanes), Command: &Command{
					Use: "queue lanes QUEUE", Short: "List the lanes of a queue, those in trouble first", Args: ofOne, Takes: oneQueue,
					List:  listIn(refreshed, (*Lanes).Table),
					Flags: []Flag{{Name: "key", Field: "key", Usage: "lanes whose key contains this `TEXT`"}},
					Long: "List lanes of a queue, at most 200: first those that wait for their next attempt, then those that run, then those that wait " +
						"for their turn.\nWith --key those whose key contains a text: first those that have failed, then the others, by key. A FIFO queue " +
						"has one lane, without a key.",
					Example: "  shell-operator queue lanes orders\n  shell-operator queue lanes orders --key eu/ -w\n  shell-operator queue " +
						"lanes orders " +
						"-o json | jq '.count'",
				}},
			{Method: "POST", Path: "/queue/*/retry", About: "end the delay of a failed task: form field `key`, without it of all lanes",
				act: onQueue(queues, 1, q.retry), Command: &Command{
					Use: "queue retry QUEUE", Short: "Begin the next attempt of failed tasks now", Args: ofOne, Takes: oneQueue, Flags: key,
					Long: "Begin the next attempt of failed tasks now: that of the lane of --key, such as Order.example.com/shop/blue, " +
						"without it those of all\nlanes. A FIFO queue is one lane.",
					Example: "  shell-operator queue retry main",
				}},
			{Method: "POST", Path: "/queue/*/skip", About: "drop a failed task: form field `key` for a keyed queue", act: onQueue(queues, 1, q.skip),
				Command: &Command{
					Use: "queue skip QUEUE", Short: "Drop a failed task that blocks its queue", Args: ofOne, Takes: oneQueue, Flags: key,
					Long: `Drop the failed task at the head of a queue, or of the lane of --key. Its contexts are in the log. A Synchronization unlocks the
events of its bindings, and an onStartup run counts as done. A task that is running is not dropped.`,
					Example: "  shell-operator queue skip main --dry-run\n  shell-operator queue skip main",
				}},
		},
		Reasons: func(h *hook.Hook, at *Moment) []Reason {
			return (&queued{h, at.of(queues), runs.Runs, timeout}).reasons()
		},
		Troubles: func() (all []Trouble) {
			for _, q := range queues.Queues(1) {
				all = append(all, failingTasks(&q)...)
			}
			return all
		},
	}
}

// QueueMetrics count tasks.
func QueueMetrics(names telemetry.Names, queues *queue.Set) []prometheus.Collector {
	return []prometheus.Collector{
		names.Gauge("tasks_queue_length", func(set telemetry.Set) {
			queues.Visit(func(name string, tasks []queue.Task) { set(len(tasks), name) })
		}),
		names.Gauge("tasks_queue_compaction_tasks_by_hook", func(set telemetry.Set) {
			queues.Visit(func(name string, tasks []queue.Task) {
				of := map[string]int{}
				for _, t := range tasks {
					if t, ok := t.(lifecycle.Task); ok {
						of[t.Hook().Name]++
					}
				}
				for hook, n := range of {
					if n > crowd {
						set(n, name, hook)
					}
				}
			})
		}),
	}
}

// crowd is how many tasks of one hook in a queue are worth a series.
const crowd = 20

type queueTopic struct {
	queues queueReader
	do     queueActor
}

func (t *queueTopic) main(request) (answer, error) {
	d := queueDump{Name: hook.MainQueue}
	if q, ok := t.queues.Queue(hook.MainQueue, "", shownTasks); ok {
		d = dumpOf(q)
	}
	return answer{value: d, text: d.text()}, nil
}

func (t *queueTopic) list(r request) (answer, error) {
	d := dumpAll(t.queues.Queues(shownTasks), r.URL.Query().Get("showEmpty") == "true")
	return answer{value: d, text: d.text()}, nil
}

// onQueue is an answer about the queue that the request names, with at most so many tasks.
func onQueue[A any](queues queueReader, limit int, about func(request, Queue) (A, error)) func(request) (A, error) {
	return func(r request) (none A, err error) {
		if q, ok := queues.Queue(r.name, "", limit); ok {
			return about(r, q)
		}
		var all []string
		for _, q := range queues.Queues(0) {
			all = append(all, q.Name)
		}
		return none, refuse(http.StatusBadRequest, "there is no queue %q", r.name).
			meant(r.name, all, "shell-operator queue list --show-empty shows all queues").as(unknownQueue)
	}
}

// lane finds the lane that the form field key names. It has tasks.
func (t *queueTopic) lane(r request, q Queue) (Lane, error) {
	key := r.PostForm.Get("key")
	if l, ok := t.queues.Lane(q.Name, key); ok {
		return l, nil
	}
	if !q.Keyed {
		return Lane{}, refuse(http.StatusBadRequest, "queue %q has no keys", q.Name).hint("leave --key out")
	}
	q, _ = t.queues.Queue(q.Name, "", shownTasks)
	var keys []string
	for _, l := range q.FirstLanes {
		keys = append(keys, l.Key)
	}
	return Lane{}, refuse(http.StatusBadRequest, "queue %q has no task with the key %q", q.Name, key).
		meant(key, keys, "shell-operator queue list shows the keys")
}

func (t *queueTopic) retry(r request, q Queue) (acted, error) {
	n, one := q.Delayed, Lane{Phase: q.Phase}
	if r.PostForm.Has("key") {
		var err error
		if one, err = t.lane(r, q); err != nil {
			return acted{}, err
		}
	}
	if r.PostForm.Has("key") || !q.Keyed {
		n = 0
		if one.Phase == queue.Sleeping {
			n = 1
		}
	}
	if !r.dryRun {
		n = t.do.RetryQueue(q.Name, r.PostForm.Get("key"), !r.PostForm.Has("key"))
	}
	if n == 0 {
		return done(0, "queue %q: no task waits for its next attempt", q.Name), nil
	}
	return done(n, "queue %q: the next attempt of %s begins now", q.Name, Count(n, "task")), nil
}

func (t *queueTopic) skip(r request, q Queue) (acted, error) {
	var l Lane
	switch {
	case r.PostForm.Has("key"):
		var err error
		if l, err = t.lane(r, q); err != nil {
			return acted{}, err
		}
	case q.Keyed:
		return acted{}, refuse(http.StatusBadRequest, "queue %q is keyed", q.Name).
			hint("name the lane with --key, shell-operator queue list shows the keys")
	case len(q.FirstLanes) > 0:
		l = q.FirstLanes[0]
	}
	if l.Failures == 0 || l.Phase == queue.Running {
		return done(0, "queue %q has no failed task that could be skipped; one that is running ends first", q.Name), nil
	}
	dropped := l.Task
	if !r.dryRun {
		skipped, ok := t.do.SkipTask(q.Name, r.PostForm.Get("key"))
		if !ok {
			return acted{}, refuse(http.StatusConflict, "the task has begun its next attempt").hint("try again when it has ended")
		}
		dropped = describe(skipped.Task)
	}
	return done(1, "queue %q: %s is dropped; the log has its contexts", q.Name, dropped.named()), nil
}

// failingTasks are those whose last attempt has failed. They wait for the next one, or are in it: an attempt may take minutes.
func failingTasks(q *Queue) []Trouble {
	if len(q.FirstLanes) == 0 || q.FirstLanes[0].Failures == 0 { // lanes in trouble come first
		return nil
	}
	l := &q.FirstLanes[0]
	t := Trouble{Kind: InQueue, Queue: q.Name, Subject: fmt.Sprintf("queue %q", q.Name), Problem: l.Head() + " " + l.doing(),
		Hint: "shell-operator queue lanes " + q.Name, object: l.First, cause: l.Error}
	if q.Keyed {
		t.object = fmt.Sprintf("key %q", l.Key)
		if others := q.Delayed - rank(l.Phase != queue.Sleeping); others > 0 {
			t.Problem += fmt.Sprintf(" (%d more delayed in other lanes)", others)
		}
	} else if l.Hook != "" {
		t.Hooks, t.Hint = []string{l.Hook}, "shell-operator runs "+l.Hook+" --failed"
	}
	return []Trouble{t}
}
