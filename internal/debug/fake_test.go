package debug

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/run/worker"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an operator with fixed state.
type fake struct {
	sights   map[string]Sight
	parts    map[string][]applyset.Part
	hooks    []*hook.Hook
	rejected map[string]hookset.Rejection
	skipped  map[string]string
	queues   []Queue
	bindings map[string][]watch.State
	progress map[string]Progress
	ticks    map[string]time.Time
	paused   []string
	parked   []pending.ParkedTask
	dropped  map[*hook.Hook]int
	entries  []finalizer.Entry
	orphans  []finalizer.Orphan
	sets     []applyset.Set
	// lost are the sets whose hook is gone.
	lost      []applyset.Set
	members   []applyset.MemberState
	contested []applyset.Contested
	troubles  []Trouble
	notReady  string
	workers   map[string]worker.State
	noWorkers bool
}

func (f *fake) Workers(h *hook.Hook) (worker.State, bool) { return f.workers[h.Name], !f.noWorkers }

func (f *fake) Queues(limit int) []Queue {
	all := append([]Queue(nil), f.queues...)
	for i := range all {
		if limit >= 0 && len(all[i].FirstTasks) > limit {
			all[i].FirstTasks = all[i].FirstTasks[:limit]
		}
	}
	return all
}

func (f *fake) Queue(name, text string, limit int) (Queue, bool) {
	for _, q := range f.Queues(limit) {
		if q.Name == name {
			q.FirstLanes = slices.DeleteFunc(slices.Clone(q.FirstLanes), func(l Lane) bool { return !strings.Contains(l.Key, text) })
			q.Matching = len(q.FirstLanes)
			return q, true
		}
	}
	return Queue{}, false
}

func (f *fake) Lane(queue, key string) (Lane, bool) {
	q, _ := f.Queue(queue, "", -1)
	for _, l := range q.FirstLanes {
		if l.Key == key {
			return l, true
		}
	}
	return Lane{}, false
}

func (f *fake) Deletions(*hook.Hook, int) []pending.Deletion { return nil }

func (f *fake) Binding(h *hook.Hook, index int) watch.State {
	if list := f.bindings[h.Name]; index < len(list) {
		return list[index]
	}
	return watch.State{Objects: event.NoObjects{}}
}

func (f *fake) Progress(h *hook.Hook) Progress    { return f.progress[h.Name] }
func (f *fake) NextTick(crontab string) time.Time { return f.ticks[crontab] }

// objects is a snapshot.
type objects []event.Object

func (o objects) Len() int { return len(o) }
func (o objects) Each(yield func(event.Object) bool) {
	for _, one := range o {
		if !yield(one) {
			return
		}
	}
}

// fifo is a queue of tasks, which has the state of its only lane.
func fifo(name, status string, l Lane, tasks ...Task) Queue {
	l.Tasks, l.Task = len(tasks), tasks[0]
	return Queue{Name: name, Tasks: l.Tasks, Status: status, Phase: l.Phase, For: l.For, Failures: l.Failures, RetryIn: l.RetryIn,
		Head: l.Head(), FirstTasks: tasks, FirstLanes: []Lane{l}}
}

// theQueues are the queues of the specification's example.
func theQueues() []Queue {
	return []Queue{
		fifo("main", "run first task", Lane{Phase: queue.Running},
			Task{"shop/watch.sh", "kubernetes", "pods", "HookRun:main:kubernetes:shop/watch.sh:pods", ""},
			Task{"tidy.sh", "schedule", "every-night", "HookRun:main:schedule:tidy.sh:group=nightly:every-night", ""}),
		fifo("slow", "sleep after fail for 5s (3s left of 5s delay)",
			Lane{Phase: queue.Sleeping, RetryIn: history.Duration(3 * time.Second), Failures: 4, Error: "big.py FAILED: boom"},
			Task{"big.py", "kubernetes", "cms", "HookRun:slow:kubernetes:big.py:cms", "17"}),
		{Name: "spare"},
	}
}

// theOperator has hooks that cover most of what there is.
func theOperator() *fake {
	pods := hook.Kubernetes{Binding: hook.Binding{Name: "pods", Includes: []int{0, 1}}, Queue: "main", Kind: "Pod", APIVersion: "v1",
		KeepFullObjects: true, Added: true, Deleted: true, JQFilter: ".metadata.labels", Labels: "app=x"}
	cms := hook.Kubernetes{Binding: hook.Binding{Name: "cms", Group: "all"}, Queue: "main", Kind: "ConfigMap", Initial: hook.InitialNone,
		Namespaces: hook.Namespaces{Names: []string{"a", "b"}}, Resync: time.Hour}
	one := 1
	return &fake{
		hooks: []*hook.Hook{
			{Name: "shop/watch.sh", Path: "/hooks/shop/watch.sh", Kubernetes: []hook.Kubernetes{pods, cms},
				Settings: hook.Settings{MinInterval: 5 * time.Second, Burst: 2}},
			{Name: "big.py", Path: "/hooks/big.py", Printed: []byte(`{"kubernetes": [{"kind": "ConfigMap", "name": "\ud83d\ude80\/"}]}`),
				Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "cms"}, Queue: "slow", Kind: "ConfigMap", Added: true}}},
			{Name: "tidy.sh", Path: "/hooks/tidy.sh", OnStartup: &one, Printed: []byte("# at night\nschedule:\n- crontab: 0 3 * * *\n"),
				Schedules: []hook.Schedule{{Binding: hook.Binding{Name: "every-night", Group: "nightly"}, Crontab: "0 3 * * *", Queue: "main"}}},
			{Name: "<b>ärger 100%.sh", Path: "/hooks/<b>ärger 100%.sh"},
		},
		queues: theQueues(),
		bindings: map[string][]watch.State{
			"shop/watch.sh": {{
				Objects: objects{
					{Namespace: "a", Name: "x", Kind: "Pod", Full: event.Memory(`{"kind":"Pod","data":"secret-value"}`),
						Filtered: event.Memory(`{"app":"x"}`)},
					{Namespace: "a", Name: "y", Kind: "Pod", Full: event.Memory(`{"kind":"Pod","n":12345678901234567890}`),
						Filtered: event.Memory(`null`)},
				},
				Total: watch.Changes{Added: 5, Modified: 9, Deleted: 3}, Recent: watch.Changes{Added: 1}, Complete: true, Unlocked: true,
			}, {Objects: event.NoObjects{}, Complete: true, Unlocked: true, Troubles: []string{"no permission to watch configmaps (v1)"}}},
			"big.py": {{Objects: event.NoObjects{}, Complete: true, Held: 2}},
		},
		progress: map[string]Progress{
			"shop/watch.sh": {StartedUp: true}, "big.py": {StartedUp: true}, "tidy.sh": {StartedUp: true, Ticking: true},
			"<b>ärger 100%.sh": {StartedUp: true},
		},
		ticks: map[string]time.Time{"0 3 * * *": time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)},
	}
}

// operator is what an API is made of in tests.
type operator struct {
	*fake
	do       *fakeActions
	history  *history.History
	logLevel *LogLevel
	log      *slog.Logger
}

func operate(f *fake) *operator {
	log := slog.New(slog.DiscardHandler)
	return &operator{f, &fakeActions{}, history.New(), NewLogLevel(&slog.LevelVar{}, log), log}
}

// api has all topics, as an operator that has loaded its hooks.
func (o *operator) api() *API {
	f, names := o.fake, telemetry.Names("")
	o.do.fake = f
	hooks := &Hooks{Active: func() []*hook.Hook { return f.hooks }, Skipped: func(name string) (reason, hint string) {
		reason, hint, _ = strings.Cut(f.skipped[name], "; ")
		return reason, hint
	}}
	api := New(Options{Hooks: hooks, Queues: f, Bindings: f, Workers: f, History: o.history,
		NotReady: func() string { return f.notReady },
		Version:  "v1.2.3", Log: o.log})
	api.Show([]Topic{
		PausesTopic(hooks, f, o.do), QueuesTopic(f, o.do, o.history, 0), ParkedTopic(o.do, names),
		FinalizersTopic(FinalizersOptions{Hooks: hooks, Record: fakeRecord{o.do}, Instance: "shop.operator",
			SearchProblem: func() string { return "" }, Names: names}),
		SetsTopic(SetsOptions{Hooks: hooks, Sets: fakeSets{o.do}, Log: o.log,
			Lost: func() []applyset.Set { return f.lost }, Contested: func() []applyset.Contested { return f.contested }, Names: names}),
		BindingsTopic(hooks, f, f, names), ReloadTopic(func() map[string]hookset.Rejection { return f.rejected }, names),
		HooksTopic(hooks, f, f, o.do),
		RunsTopic(hooks, o.history, o.do, f, o.do), ObjectTopic(hooks, f, f, o.history), WorkersTopic(hooks, f),
		OperationsTopic(func() ([]apply.Sent, int) { return nil, 0 }), o.logLevel.Topic(),
		{Troubles: func() []Trouble { return f.troubles }},
	})
	return api
}

func (o *operator) page() http.Handler { return NewPage(o.api(), false) }

// record adds a run that has ended.
func record(h *history.History, task, hook string, status history.Status, output string) {
	r := h.Begin(history.Run{Task: task, Hook: hook, Attempt: 1, Queue: "slow", Binding: "cms", Event: "kubernetes",
		Why: []string{"Added a/x (cms)"}, Events: 3, Waited: history.Duration(time.Second)})
	r.Output([]byte(output))
	exit, cause, err := "exit status 0", "", ""
	if status.Bad() {
		exit, cause, err = "exit status 1", OneLine(output), hook+" FAILED: "+output
	}
	r.End(history.Outcome{Status: status, Took: history.Duration(1500 * time.Millisecond), Exit: exit, Cause: cause, Error: err,
		Patches: []run.Change{{Operation: "MergePatch", Kind: "Pod/status", Namespace: "a", Name: "x"}}})
}
