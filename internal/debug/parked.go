package debug

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// parker has the parked tasks.
type parker interface {
	// Parked are the parked tasks, the oldest first, with at most so many of their events.
	Parked(events int) []pending.ParkedTask
	// LostParked counts the contexts of each hook that --max-parked has dropped since its last success.
	LostParked() map[*hook.Hook]int
	// RetryParked and DropParked return the ids of those parked tasks that there were.
	RetryParked(ids ...string) []string
	DropParked(ids ...string) []string
}

type parkedTopic struct{ parker }

// ParkedTopic shows, retries and drops parked tasks.
func ParkedTopic(parked parker, names telemetry.Names) Topic {
	t := parkedTopic{parked}
	which := []Flag{
		{Name: "all", Field: "all", Default: "false", Usage: "all parked tasks"},
		{Name: "hook", Field: "hook", Usage: "the parked tasks of this hook"},
		{Name: "queue", Field: "queue", Usage: "the parked tasks of this queue"},
	}
	return Topic{
		Name: "parked", About: "Show, retry and drop tasks that have failed for the last time",
		Routes: []Route{
			{Method: "GET", Path: "/parked/list", About: "parked tasks", show: t.list, Command: &Command{
				Use: "parked list", Short: "List the parked tasks with their errors", List: listOf("parked tasks", refreshed, (*ParkedTask).cells),
				Long: "List the tasks that have no attempt left, the latest first, with their errors.",
				Example: "  shell-operator parked\n  shell-operator parked -o wide\n" +
					"  shell-operator parked -o json | jq '.[] | select(.attempts > 3).id' | xargs -r shell-operator parked retry",
			}},
			{Method: "POST", Path: "/parked/retry",
				About: "queue parked tasks again: form field `id`, repeatedly for several, or `hook`, `queue` or both, or `all=true`",
				act:   t.each("is queued again", t.RetryParked), Command: &Command{
					Use: "parked retry [ID]...", Short: "Queue parked tasks again", Many: "id", Flags: which, Check: chosenParked,
					Example: "  shell-operator parked retry 4 17\n  shell-operator parked retry --hook orders.sh --queue orders --dry-run",
					Long: `Queue parked tasks again: those with these ids, those of a hook, of a queue or of both, or all. Each object gets one event
behind those that wait in its lane, with its current state and all attempts. A Synchronization is replaced by a new one.`,
				}},
			{Method: "POST", Path: "/parked/drop", About: "drop parked tasks: form fields as above",
				act: t.each("is dropped; the log has its contexts", t.DropParked), Command: &Command{
					Use: "parked drop [ID]...", Short: "Forget parked tasks", Many: "id", Flags: which, Check: chosenParked,
					Example: "  shell-operator parked drop --all --dry-run",
					Long:    "Forget parked tasks: those with these ids, those of a hook, of a queue or of both, or all. Their contexts are in the log.",
				}},
		},
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
	Bindings []string `json:"bindings,omitempty"`
	About    []string `json:"about,omitempty"`
	// Contexts is the number of contexts of the task, or of one object if the answer is about an object.
	Contexts int       `json:"contexts"`
	Attempts int       `json:"attempts"`
	Since    time.Time `json:"since"`
	// Error is the error of the last attempt, with the reason to give up. GaveUp reports that the hook did, before its last attempt.
	Error  string `json:"error"`
	GaveUp bool   `json:"gaveUp,omitempty"`
}

func (p *ParkedTask) cells() []Cell {
	failure := p.Error
	if p.GaveUp {
		failure = "gave up: " + failure
	}
	return []Cell{
		asText.of("ID", p.ID), asHook.of("HOOK", p.Hook), asQueue.of("QUEUE", p.Queue), asKey.of("KEY", p.Key),
		asNumber.of("CONTEXTS", p.Contexts), asNumber.of("ATTEMPTS", p.Attempts), asAge.of("AGO", p.Since),
		asText.wide("BINDINGS", strings.Join(p.Bindings, ", ")), asText.wide("FIRST CONTEXT", strings.Join(p.About[:min(1, len(p.About))], "")),
		asFault.of("ERROR", failure), asActions.of("ACTIONS", []Action{acts("parked/retry", "id", p.ID), acts("parked/drop", "id", p.ID)}),
	}
}

// shownParked is a parked task with at most so many of its contexts in words.
func shownParked(p *pending.ParkedTask, contexts int) ParkedTask {
	shown := ParkedTask{ID: p.ID, Hook: p.Hook.Name, Queue: p.Queue, Key: p.Key, Contexts: p.Contexts, Attempts: p.Attempts, Since: p.Since,
		Error: p.Error, GaveUp: p.GaveUp}
	for n, ev := range p.Events {
		if name := ev.Binding().Name; !slices.Contains(shown.Bindings, name) {
			shown.Bindings = append(shown.Bindings, name)
		}
		if n < contexts {
			shown.About = append(shown.About, run.DescribeEvent(&ev))
		}
	}
	return shown
}

// shownContexts limits the contexts of a parked task that are described.
const shownContexts = 10

// tasks are the parked tasks, the latest first.
func (t parkedTopic) tasks() []ParkedTask {
	all := []ParkedTask{}
	for _, p := range t.Parked(math.MaxInt) {
		all = append(all, shownParked(&p, shownContexts))
	}
	slices.Reverse(all)
	return all
}

func (t parkedTopic) list(request) (answer, error) { return answer{value: t.tasks()}, nil }

// laneText names a lane.
func laneText(queue, key string) string {
	if key == "" {
		return fmt.Sprintf("queue %q", queue)
	}
	return fmt.Sprintf("queue %q, key %q", queue, key)
}

// chosenParked rejects a form that does not choose parked tasks in exactly one way.
func chosenParked(form url.Values) error {
	ways := 0
	for _, way := range []bool{form.Has("id"), form.Get("hook") != "" || form.Get("queue") != "", form.Get("all") == "true"} {
		ways += 1 - rank(way)
	}
	if ways != 1 {
		return errors.New("name the parked tasks in one way: by their ids, by --hook and --queue, or --all: shell-operator parked shows them")
	}
	return nil
}

// chosen are the tasks that a form chooses, the oldest first.
func (t parkedTopic) chosen(form url.Values) (tasks []pending.ParkedTask, err error) {
	if err := chosenParked(form); err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	of, queue, named := form.Get("hook"), form.Get("queue"), form["id"]
	for _, p := range t.Parked(0) {
		if named != nil && slices.Contains(named, p.ID) ||
			named == nil && (of == "" || p.Hook.Name == of) && (queue == "" || p.Queue == queue) {
			tasks = append(tasks, p)
		}
	}
	for _, id := range named {
		if !slices.ContainsFunc(tasks, func(p pending.ParkedTask) bool { return p.ID == id }) {
			return nil, refuse(http.StatusBadRequest, "there is no parked task %q, or no longer", id).hint("shell-operator parked shows all")
		}
	}
	if len(tasks) == 0 && form.Get("all") != "true" { // of a hook or queue that is misspelled, perhaps
		text := "there is no parked task"
		if of != "" {
			text += fmt.Sprintf(" of hook %q", of)
		}
		if queue != "" {
			text += fmt.Sprintf(" in queue %q", queue)
		}
		return nil, refuse(http.StatusBadRequest, "%s", text).hint("shell-operator parked shows all")
	}
	return tasks, nil
}

// each acts on the parked tasks that the form chooses.
func (t parkedTopic) each(is string, do func(ids ...string) []string) func(request) (acted, error) {
	return func(r request) (acted, error) {
		tasks, err := t.chosen(r.PostForm)
		if err != nil {
			return acted{}, err
		}
		if !r.dryRun && len(tasks) > 0 {
			ids := make([]string, len(tasks))
			for i, p := range tasks {
				ids[i] = p.ID
			}
			found := sets.New(do(ids...)...)
			tasks = slices.DeleteFunc(tasks, func(p pending.ParkedTask) bool { return !found.Has(p.ID) })
		}
		if len(tasks) == 0 {
			return done(0, "no parked tasks"), nil // any more, perhaps
		}
		lines := make([]string, len(tasks))
		for i, p := range tasks { // after a restart, another one may have the id
			lines[i] = fmt.Sprintf("parked task %s of %s, %s, parked at %s, %s", p.ID, p.Hook.Name, laneText(p.Queue, p.Key),
				p.Since.UTC().Format(time.RFC3339), is)
		}
		return done(len(tasks), "%s", strings.Join(lines, "\n")), nil
	}
}

// troubles has one for each hook and queue, and one for each hook that has lost contexts.
func (t parkedTopic) troubles() (all []Trouble) {
	for h, n := range t.LostParked() {
		all = append(all, Trouble{Kind: InParked, part: true, Hooks: []string{h.Name}, Subject: h.Name,
			Problem: fmt.Sprintf("--max-parked has dropped %s since its last successful run", Count(n, "parked context")),
			Hint:    "its log records name them; hook trigger runs a binding for all its objects"})
	}
	slices.SortFunc(all, func(a, b Trouble) int { return cmp.Compare(a.Subject, b.Subject) })
	type place struct{ hook, queue string }
	var places []place
	tasks, last := map[place]int{}, map[place]*Trouble{}
	for _, p := range slices.Backward(t.Parked(1)) {
		at, shown := place{p.Hook.Name, p.Queue}, shownParked(&p, 1)
		if tasks[at]++; tasks[at] == 1 {
			places = append(places, at)
			last[at] = &Trouble{Kind: InParked, Hooks: []string{at.hook}, Subject: fmt.Sprintf("%s, queue %q", at.hook, at.queue),
				Hint: "shell-operator parked list", Queue: at.queue, object: strings.Join(shown.About, ""), cause: p.Error}
		}
		last[at].Since = p.Since // the last one is the oldest
	}
	for _, at := range places {
		last[at].Problem = Count(tasks[at], "task") + " parked after the last attempt"
		all = append(all, *last[at])
	}
	return all
}

// measure counts the tasks of each binding.
func (t parkedTopic) measure(set telemetry.Set) {
	type labels struct{ hook, binding, queue string }
	tasks := map[labels]int{}
	for _, p := range t.Parked(math.MaxInt) {
		for _, name := range shownParked(&p, 0).Bindings {
			tasks[labels{p.Hook.Name, name, p.Queue}]++
		}
	}
	for l, n := range tasks {
		set(n, l.hook, l.binding, l.queue)
	}
}
