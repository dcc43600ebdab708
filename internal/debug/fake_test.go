package debug

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an operator with fixed state.
type fake struct {
	hooks    []*hook.Hook
	rejected map[string]string
	skipped  map[string]string
	queues   []Queue
	bindings map[string][]Binding
	progress map[string]Progress
	ticks    map[string]time.Time
	paused   []string
	parked   []ParkedTask
	sent     []Sent
	orphans  []Finalizer
	sets     []Set
	members  []SetMember
	troubles []Trouble
	notReady string
	// others are operators with the same instance name.
	others     []string
	heartbeats []Heartbeat
}

var _ Operator = (*fake)(nil)

func (f *fake) Hooks() []*hook.Hook         { return f.hooks }
func (f *fake) Rejected() map[string]string { return f.rejected }
func (f *fake) Skipped(name string) (reason, hint string) {
	reason, hint, _ = strings.Cut(f.skipped[name], "; ")
	return reason, hint
}

func (f *fake) Troubles() []Trouble { return f.troubles }
func (f *fake) NotReady() string    { return f.notReady }

func (f *fake) Queues(limit int) []Queue {
	all := append([]Queue(nil), f.queues...)
	for i := range all {
		if limit >= 0 && len(all[i].Tasks) > limit {
			all[i].Tasks = all[i].Tasks[:limit]
		}
	}
	return all
}

func (f *fake) Queue(name string, limit int) (Queue, bool) {
	for _, q := range f.Queues(limit) {
		if q.Name == name {
			return q, true
		}
	}
	return Queue{}, false
}

func (f *fake) Lane(queue, key string) (Lane, bool) {
	q, _ := f.Queue(queue, -1)
	for _, l := range q.lanes() {
		if l.Key == key {
			return l, true
		}
	}
	return Lane{}, false
}

func (f *fake) Binding(h *hook.Hook, index int) Binding {
	if list := f.bindings[h.Name]; index < len(list) {
		return list[index]
	}
	return Binding{Objects: event.NoObjects{}}
}

func (f *fake) Progress(h *hook.Hook) Progress { return f.progress[h.Name] }
func (f *fake) PausedHooks() []string          { return slices.Clone(f.paused) }
func (f *fake) Parked() []ParkedTask           { return slices.Clone(f.parked) }
func (f *fake) Sent() ([]Sent, int)            { return f.sent, 0 }
func (f *fake) Orphans() []Finalizer {
	return slices.DeleteFunc(slices.Clone(f.orphans), func(o Finalizer) bool { return !o.Orphan })
}
func (f *fake) Others() (string, []string)                      { return "shop.operator", f.others }
func (f *fake) Heartbeats(context.Context) ([]Heartbeat, error) { return f.heartbeats, nil }
func (f *fake) OneByOne(*hook.Hook) string                      { return "" }
func (f *fake) Recording(string) ([]byte, error)                { return nil, nil }
func (f *fake) NextTick(crontab string) time.Time               { return f.ticks[crontab] }

func (f *fake) Finalizers(context.Context) ([]Finalizer, error) { return f.orphans, nil }

func (f *fake) Sets(context.Context) ([]Set, error) {
	return slices.Clone(f.sets), nil
}
func (f *fake) LostSets() []Set {
	return slices.DeleteFunc(slices.Clone(f.sets), func(s Set) bool { return !s.HookAbsent })
}
func (f *fake) SetMembers(context.Context, Set) ([]SetMember, error) { return f.members, nil }

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

// theQueues are those of the specification's example.
func theQueues() []Queue {
	return []Queue{
		{Name: "main", Length: 2, Phase: Running, Status: "run first task", Tasks: []Task{
			{"HookRun:main:kubernetes:shop/watch.sh:pods", "shop/watch.sh", "kubernetes", "pods"},
			{"HookRun:main:schedule:tidy.sh:group=nightly:every-night", "tidy.sh", "schedule", "every-night"},
		}},
		{Name: "slow", Length: 1, Phase: Sleeping, Left: 3 * time.Second, Status: "sleep after fail for 5s (3s left of 5s delay)", Failures: 4, LastError: "big.py FAILED: boom", Tasks: []Task{
			{"HookRun:slow:kubernetes:big.py:cms", "big.py", "kubernetes", "cms"},
		}},
		{Name: "spare"},
	}
}

// theOperator has hooks that cover most of what there is.
func theOperator() *fake {
	pods := hook.Kubernetes{Binding: hook.Binding{Name: "pods", Includes: []int{0, 1}}, Queue: "main", Kind: "Pod", APIVersion: "v1", KeepFullObjects: true, Added: true, Deleted: true, JQFilter: ".metadata.labels", Labels: "app=x"}
	cms := hook.Kubernetes{Binding: hook.Binding{Name: "cms", Group: "all"}, Queue: "main", Kind: "ConfigMap", Initial: hook.InitialNone, Namespaces: hook.Namespaces{Names: []string{"a", "b"}}, Resync: time.Hour}
	one := 1
	return &fake{
		hooks: []*hook.Hook{
			{Name: "shop/watch.sh", Path: "/hooks/shop/watch.sh", Kubernetes: []hook.Kubernetes{pods, cms}, Settings: hook.Settings{MinInterval: 5 * time.Second, Burst: 2}},
			{Name: "big.py", Path: "/hooks/big.py", Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "cms"}, Queue: "slow", Kind: "ConfigMap", Added: true}}},
			{Name: "tidy.sh", Path: "/hooks/tidy.sh", OnStartup: &one, Schedules: []hook.Schedule{{Binding: hook.Binding{Name: "every-night", Group: "nightly"}, Crontab: "0 3 * * *", Queue: "main"}}},
			{Name: "<b>ärger 100%.sh", Path: "/hooks/<b>ärger 100%.sh"},
		},
		queues: theQueues(),
		bindings: map[string][]Binding{
			"shop/watch.sh": {{
				Objects: objects{
					{Namespace: "a", Name: "x", Kind: "Pod", Full: event.Memory(`{"kind":"Pod","data":"secret-value"}`), Filtered: event.Memory(`{"app":"x"}`)},
					{Namespace: "a", Name: "y", Kind: "Pod", Full: event.Memory(`{"kind":"Pod","n":12345678901234567890}`), Filtered: event.Memory(`null`)},
				},
				Total: Changes{Added: 5, Modified: 9, Deleted: 3}, Recent: Changes{Added: 1}, Complete: true, Unlocked: true,
			}, {Objects: event.NoObjects{}, Complete: true, Unlocked: true, Troubles: []string{"no permission to watch configmaps (v1)"}}},
			"big.py": {{Objects: event.NoObjects{}, Complete: true, Held: 2}},
		},
		progress: map[string]Progress{
			"shop/watch.sh": {StartedUp: true}, "big.py": {StartedUp: true}, "tidy.sh": {StartedUp: true, Ticking: true}, "<b>ärger 100%.sh": {StartedUp: true},
		},
		ticks: map[string]time.Time{"0 3 * * *": time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)},
	}
}

// options are complete.
func options(op Operator) Options {
	log := slog.New(slog.DiscardHandler)
	return Options{Operator: op, History: history.New(), LogLevel: NewLogLevel(&slog.LevelVar{}, log), Version: "v1.2.3", Log: log}
}

// record adds a run that has ended.
func record(h *history.History, task, hook string, status history.Status, output string) {
	r := h.Begin(history.Run{Task: task, Hook: hook, Attempt: 1, Queue: "slow", Binding: "cms", Event: "kubernetes", Why: []string{"Added a/x (cms)"}, Events: 3, Waited: history.Duration(time.Second)})
	r.Output([]byte(output))
	exit, err := "exit status 0", ""
	if status.Bad() {
		exit, err = "exit status 1", hook+" FAILED: "+output
	}
	r.End(history.Outcome{Status: status, Took: 1500 * time.Millisecond, Exit: exit, Error: err, Patches: []history.Patch{{Operation: "MergePatch", Kind: "Pod/status", Namespace: "a", Name: "x"}}})
}
