package debug

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// parker has the parked tasks.
type parker interface {
	// Parked are the parked tasks, the oldest first, with at most so many of their events.
	Parked(events int) []pending.ParkedTask
	// RetryParked and DropParked return the ids of those parked tasks that there were.
	RetryParked(ids ...string) []string
	DropParked(ids ...string) []string
}

type parkedTopic struct{ parker }

// ParkedTopic shows, retries and drops parked tasks.
func ParkedTopic(parked parker, names telemetry.Names) Topic {
	t := parkedTopic{parked}
	ids := Names{Path: "/parked/list.json", Key: "id", About: []string{"hook", "key"}}
	all := []Flag{{"all", "all", "false", "all parked tasks"}}
	args, check := [][]string{{}, {"id"}},
		oneOf("id", "all", "name one parked task or all of them: give an id or --all, shell-operator parked list shows the ids")
	return Topic{
		Name: "parked", About: "Show, retry and drop tasks that have failed for the last time",
		Routes: []Route{
			{Method: "GET", Path: "/parked/list", About: "parked tasks", show: t.list, Command: &Command{
				Use: "parked list", Short: "Show the parked tasks with their errors",
				Example: "  shell-operator parked list\n  shell-operator parked list -o json | jq '.[].id'",
			}},
			{Method: "POST", Path: "/parked/retry", About: "queue parked tasks again: form field `id`, or `all=true`",
				act: func(r request, dryRun bool) (acted, error) {
					return t.each(r, dryRun, "is queued again", t.RetryParked)
				}, Command: &Command{
					Use: "parked retry [ID]", Short: "Queue a parked task, or all of them, again", Args: args, Flags: all, Check: check, Names: ids,
					Example: "  shell-operator parked retry --all",
					Long: "Queue a parked task, or all of them, again: before the waiting events of its lane, with all attempts. " +
						"A Synchronization is replaced by a new one.",
				}},
			{Method: "POST", Path: "/parked/drop", About: "drop parked tasks: form fields as above",
				act: func(r request, dryRun bool) (acted, error) {
					return t.each(r, dryRun, "is dropped; the log has its contexts", t.DropParked)
				}, Command: &Command{
					Use: "parked drop [ID]", Short: "Forget a parked task, or all of them", Args: args, Flags: all, Check: check, Names: ids,
					Example: "  shell-operator parked drop --all --dry-run",
					Long:    "Forget a parked task, or all of them. Their contexts are in the log.",
				}},
		},
		Reasons:  t.reasons,
		Troubles: t.troubles,
		Metrics:  []prometheus.Collector{names.Gauge("parked_tasks", t.measure)},
	}
}

// ParkedTask is a task that has failed for the last time and is kept.
type ParkedTask struct {
	ID    string `json:"id"`
	Hook  string `json:"hook"`
	Queue string `json:"queue"`
	Key   string `json:"key,omitempty"`
	// Bindings are distinct. About are the first contexts, in words.
	Bindings []string  `json:"bindings"`
	About    []string  `json:"about"`
	Contexts int       `json:"contexts"`
	Attempts int       `json:"attempts"`
	Since    time.Time `json:"since"`
	// Error is that of the last attempt, with the reason to give up. GaveUp reports that the hook did, before its last attempt.
	Error  string `json:"error"`
	GaveUp bool   `json:"gaveUp,omitempty"`
}

// shownContexts limits the contexts of a parked task that are described.
const shownContexts = 10

// tasks are the parked tasks, the latest first.
func (t parkedTopic) tasks() []ParkedTask {
	all := []ParkedTask{}
	for _, p := range t.Parked(math.MaxInt) {
		shown := ParkedTask{ID: p.ID, Hook: p.Hook.Name, Queue: p.Queue, Key: p.Key, Contexts: p.Contexts, Attempts: p.Attempts, Since: p.Since,
			Error: p.Error, GaveUp: p.GaveUp}
		for n, ev := range p.Events {
			if name := ev.Binding().Name; !slices.Contains(shown.Bindings, name) {
				shown.Bindings = append(shown.Bindings, name)
			}
			if n < shownContexts {
				shown.About = append(shown.About, run.DescribeEvent(&ev))
			}
		}
		all = append(all, shown)
	}
	slices.Reverse(all)
	return all
}

func (t parkedTopic) list(request) (answer, error) {
	parked := t.tasks()
	if len(parked) == 0 {
		return answer{value: parked, text: "no parked tasks\n"}, nil
	}
	var b strings.Builder
	now := time.Now()
	for _, p := range parked {
		b.WriteString(p.line(now) + "\n")
		for _, about := range p.About {
			b.WriteString("    " + oneLine(about) + "\n")
		}
		b.WriteString("    " + oneLine(p.Error) + "\n")
	}
	return answer{value: parked, text: b.String()}, nil
}

func (p *ParkedTask) line(now time.Time) string {
	where := fmt.Sprintf("queue %q", p.Queue)
	if p.Key != "" {
		where += fmt.Sprintf(", key %q", p.Key)
	}
	end := "given up after"
	if p.GaveUp {
		end = "the hook gave up after"
	}
	return fmt.Sprintf("%s  %s, %s: %s of %s, %s %s, %s ago", p.ID, p.Hook, where,
		count(p.Contexts, "context"), strings.Join(p.Bindings, ", "), end, count(p.Attempts, "attempt"),
		history.Duration(now.Sub(p.Since).Round(time.Second)))
}

// each acts on the parked task with the id of the form, or on all, the oldest first.
func (t parkedTopic) each(r request, dryRun bool, done string, do func(ids ...string) []string) (acted, error) {
	id, all := r.PostForm.Get("id"), r.PostForm.Get("all") == "true"
	if all == (id != "") {
		return acted{}, refuse(http.StatusBadRequest, "name one parked task or all of them").hint("give an id or --all")
	}
	var ids []string
	for _, p := range t.Parked(0) {
		if all || p.ID == id {
			ids = append(ids, p.ID)
		}
	}
	if !dryRun && len(ids) > 0 {
		ids = do(ids...)
	}
	switch {
	case len(ids) == 0 && !all:
		return acted{}, refuse(http.StatusBadRequest, "there is no parked task %q, or no longer", id).hint("shell-operator parked list shows all")
	case len(ids) == 0:
		return acted{Message: "no parked tasks"}, nil
	}
	lines := make([]string, len(ids))
	for i, id := range ids {
		lines[i] = fmt.Sprintf("parked task %s %s", id, done)
	}
	return acted{Count: len(ids), Message: strings.Join(lines, "\n")}, nil
}

// shownParked limits the parked tasks of a hook.
const shownParked = 5

// reasons are the parked tasks of a hook. They block nothing.
func (t parkedTopic) reasons(h *hook.Hook, now time.Time) (reasons []Reason) {
	parked := slices.DeleteFunc(t.tasks(), func(p ParkedTask) bool { return p.Hook != h.Name })
	for i, p := range parked {
		if i == shownParked {
			return append(reasons, Reason{ByParked, false, fmt.Sprintf("%d more parked tasks", len(parked)-i), "shell-operator parked list"})
		}
		reasons = append(reasons, Reason{ByParked, false, "parked task " + p.line(now) + ": " + oneLine(p.Error),
			"shell-operator parked retry " + p.ID + ", or parked drop"})
	}
	return reasons
}

// troubles has one for each hook and queue.
func (t parkedTopic) troubles() (all []Trouble) {
	type place struct{ hook, queue string }
	var places []place
	tasks := map[place]int{}
	for _, p := range slices.Backward(t.Parked(0)) {
		at := place{p.Hook.Name, p.Queue}
		if tasks[at]++; tasks[at] == 1 {
			places = append(places, at)
		}
	}
	for _, at := range places {
		all = append(all, Trouble{Kind: InParked, Hooks: []string{at.hook}, Subject: fmt.Sprintf("%s, queue %q", at.hook, at.queue),
			Problem: count(tasks[at], "task") + " parked after the last attempt", Hint: "shell-operator parked list"})
	}
	return all
}

// measure counts the tasks of each binding.
func (t parkedTopic) measure(set telemetry.Set) {
	type labels struct{ hook, binding, queue string }
	tasks := map[labels]int{}
	for _, p := range t.Parked(math.MaxInt) {
		bindings := map[string]bool{}
		for _, ev := range p.Events {
			bindings[ev.Binding().Name] = true
		}
		for name := range bindings {
			tasks[labels{p.Hook.Name, name, p.Queue}]++
		}
	}
	for l, n := range tasks {
		set(n, l.hook, l.binding, l.queue)
	}
}
