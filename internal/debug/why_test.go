package debug

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// state is what all topics know of a hook.
type state struct {
	hook      *hook.Hook
	progress  Progress
	bindings  []watch.State
	nextTicks []time.Time
	queues    []Queue
	runs      []history.Run
	rejected  map[string]hookset.Rejection
	timeout   time.Duration
	now       time.Time
}

// why explains the hook as the topics do together.
func (s *state) why() Explanation {
	var reasons []Reason
	troubles := rejectedHooks(s.rejected)
	for i, b := range s.bindings {
		troubles = append(troubles, bindingTroubles(s.hook.Name, &s.hook.Kubernetes[i], b)...)
	}
	for _, t := range troubles {
		if t.concerns(s.hook) {
			reasons = append(reasons, t.reason(s.hook))
		}
	}
	reasons = append(reasons, slices.Concat(
		(&queued{s.hook, s.queues, func(string) []history.Run { return s.runs }, s.timeout}).reasons(),
		(&facts{s.hook, s.progress, s.bindings, s.nextTicks, s.queues, s.now, nil}).reasons(),
	)...)
	return explain(s.hook.Name, reasons, s.runs)
}

// TestWhy compares the explanations of hooks in all states with testdata/why.golden.
func TestWhy(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	started := Progress{StartedUp: true, Ticking: true}
	away := Progress{Standby: true, Elsewhere: "the leader runs it", Where: "see there"}
	watching := []watch.State{{Objects: objects{{}, {}}, Complete: true, Unlocked: true}}
	one := 1
	watcher := &hook.Hook{Name: "me",
		Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "pods"}, Kind: "Pod", Queue: "q", Added: true, Modified: true}}}
	filter := &hook.Hook{Name: "me",
		Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "pods"}, Kind: "Pod", Added: true, JQFilter: "."}}}
	snapshots := &hook.Hook{Name: "me", Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "pods"}, Kind: "Pod"}}}
	optional := &hook.Hook{Name: "me", Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "monitors"},
		APIVersion: "monitoring.coreos.com/v1", Kind: "ServiceMonitor", Optional: true}}}
	clock := &hook.Hook{Name: "me", Schedules: []hook.Schedule{{Binding: hook.Binding{Name: "night"}, Crontab: "0 3 * * *"}}}
	limited := &hook.Hook{Name: "me", Kubernetes: watcher.Kubernetes, Settings: hook.Settings{MinInterval: time.Minute, Burst: 1}}
	limit := 12 * time.Second
	timed := &hook.Hook{Name: "me", Kubernetes: watcher.Kubernetes, Settings: hook.Settings{ExecutionTimeout: &limit}}
	starter := &hook.Hook{Name: "me", OnStartup: &one}
	reviewer := &hook.Hook{Name: "me", Validating: make([]hook.Admission, 2)}
	server := &hook.Hook{Name: "me", OnStartup: &one, HTTP: make([]hook.HTTP, 1)}
	mine, other := Task{"me", "kubernetes", "pods", "T:me", ""}, Task{"other", "kubernetes", "cms", "T:other", ""}
	fifoOf := func(phase queue.Phase, tasks ...Task) []Queue {
		l := Lane{Phase: phase, For: history.Duration(90 * time.Second)}
		if phase == queue.Sleeping {
			l.Failures, l.Error, l.RetryIn = 3, "it FAILED:\nboom", history.Duration(7*time.Second)
		}
		return []Queue{fifo("q", "", l, tasks...)}
	}
	var all strings.Builder
	for _, test := range []struct {
		name  string
		facts state
	}{
		{"listens", state{hook: watcher, progress: started, bindings: watching}},
		{"listens by a filter", state{hook: filter, progress: started, bindings: watching}},
		{"for snapshots only", state{hook: snapshots, progress: started, bindings: watching}},
		{"has an optional kind that is missing", state{hook: optional, progress: started,
			bindings: []watch.State{{Objects: event.NoObjects{}, NotInstalled: true}}}},
		{"waits for the clock", state{hook: clock, progress: started, nextTicks: []time.Time{now.Add(15 * time.Hour)}}},
		{"its clock does not tick yet", state{hook: clock, progress: Progress{StartedUp: true}, nextTicks: []time.Time{{}}}},
		{"answers", state{hook: reviewer, progress: started}},
		{"answers requests", state{hook: server, progress: started}},
		{"standby with webhooks", state{hook: reviewer, progress: Progress{Standby: true}}},
		{"ran at the start", state{hook: starter, progress: started}},
		{"was rejected", state{hook: &hook.Hook{Name: "me"}, progress: started,
			rejected: map[string]hookset.Rejection{"me": {Text: "it is\nwrong"}}}},
		{"another hook was rejected", state{hook: &hook.Hook{Name: "me"}, progress: started,
			rejected: map[string]hookset.Rejection{"b": {Text: "secret"}}}},
		{"has no bindings", state{hook: &hook.Hook{Name: "me"}, progress: started}},
		{"runs", state{hook: watcher, progress: started, bindings: watching, queues: fifoOf(queue.Running, mine),
			runs: []history.Run{{ID: "4-1", Queue: "q", Outcome: history.Outcome{Status: history.Running}}}}},
		{"runs with a time limit", state{hook: timed, progress: started, bindings: watching, queues: fifoOf(queue.Running, mine)}},
		{"runs with the default time limit", state{hook: watcher, timeout: 2 * time.Minute, progress: started,
			bindings: watching, queues: fifoOf(queue.Running, mine)}},
		{"applies operations", state{hook: timed, progress: started, bindings: watching, queues: fifoOf(queue.Running, mine),
			runs: []history.Run{{ID: "4-1", Queue: "q", Outcome: history.Outcome{Status: history.Running},
				Phases: []history.Phase{{Name: history.Applying}}}}}},
		{"is tried again", state{hook: watcher, progress: started, bindings: watching, queues: fifoOf(queue.Sleeping, mine, other)}},
		{"waits for its rate limit", state{hook: limited, progress: started, bindings: watching, queues: fifoOf(queue.Waiting, mine)}},
		{"waits for its own changes", state{hook: watcher, progress: started, bindings: watching, queues: fifoOf(queue.Waiting, mine)}},
		{"collects events", state{hook: watcher, progress: started, bindings: watching, queues: []Queue{
			fifo("q", "", Lane{Phase: queue.Collecting, Until: time.Date(2026, 11, 29, 7, 0, 1, 250e6, time.UTC)}, mine)}}},
		{"collects events in a lane", state{hook: watcher, progress: started, bindings: watching, queues: []Queue{{Name: "q", Keyed: true,
			Lanes: 2, Concurrency: 4, FirstLanes: []Lane{{Key: "a", Phase: queue.Collecting, Until: now, Task: mine}, {Key: "b", Task: mine}}}}}},
		{"is about to start", state{hook: watcher, progress: started, bindings: watching, queues: fifoOf(queue.Idle, mine)}},
		{"may not begin", state{hook: watcher, progress: started, bindings: watching, queues: []Queue{
			fifo("q", "", Lane{Phase: queue.Sleeping, RetryIn: history.Duration(7 * time.Second)}, mine)}}},
		{"is behind one that fails", state{hook: watcher, progress: started, bindings: watching, queues: fifoOf(queue.Sleeping,
			other, other, mine)}},
		{"is behind one that runs", state{hook: watcher, progress: started, bindings: watching, queues: fifoOf(queue.Running, other, mine)}},
		{"is behind one that may not run", state{hook: watcher, progress: started, bindings: watching,
			queues: fifoOf(queue.Waiting, other, mine)}},
		{"is behind one that is about to start", state{hook: watcher, progress: started, bindings: watching,
			queues: fifoOf(queue.Idle, other, mine)}},
		{"is stopped", state{hook: watcher, progress: started, bindings: watching, queues: fifoOf(queue.Stopped, mine)}},
		{"is stopped behind another", state{hook: watcher, progress: started, bindings: watching, queues: fifoOf(queue.Stopped,
			other, mine)}},
		{"has a task in a queue, runs in another", state{hook: watcher, progress: started, bindings: watching,
			queues: append(fifoOf(queue.Sleeping, other, mine), fifo("r", "", Lane{Phase: queue.Running}, mine))}},
		{"waiting for onStartup", state{hook: watcher, bindings: []watch.State{{Objects: event.NoObjects{}}},
			queues: []Queue{fifo("main", "", Lane{Failures: 2, Error: "x", Phase: queue.Sleeping}, other)}}},
		{"waits for onStartup that goes well", state{hook: watcher, bindings: []watch.State{{Objects: event.NoObjects{}}},
			queues: []Queue{fifo("main", "", Lane{Phase: queue.Running}, other)}}},
		{"standby", state{hook: watcher, progress: away,
			bindings: []watch.State{{Objects: objects{{}}, Complete: true}}}},
		{"standby with webhooks and schedules", state{hook: &hook.Hook{Name: "me", Schedules: make([]hook.Schedule, 1),
			Validating: make([]hook.Admission, 1)}, progress: away, nextTicks: make([]time.Time, 1)}},
		{"on another shard", state{hook: clock, progress: Progress{Standby: true, Elsewhere: "the hook runs on shard 0",
			Where: "see there"}, nextTicks: []time.Time{{}}}},
		{"standby with its onStartup run", state{hook: starter, progress: away}},
		{"standby without its bindings", state{hook: watcher, progress: Progress{Standby: true, Elsewhere: "the leader runs it",
			Waiting: "x"}, bindings: []watch.State{{Objects: event.NoObjects{},
			Troubles: []string{"no permission to list pods (v1): give the rule"}}}}},
		{"answers, as a standby too", state{hook: reviewer, progress: away}},
		{"is not enabled", state{hook: watcher, progress: Progress{StartedUp: true, Waiting: "x"},
			bindings: []watch.State{{Objects: event.NoObjects{},
				Troubles: []string{"no permission to list pods (v1): give the rule"}}}}},
		{"is being enabled", state{hook: watcher, progress: Progress{StartedUp: true,
			Waiting: "its kubernetes bindings are being enabled"}, bindings: []watch.State{{Objects: event.NoObjects{}}}}},
		{"its Synchronization is not over", state{hook: watcher, progress: started,
			bindings: []watch.State{{Objects: event.NoObjects{}, Complete: true, Held: 4}}}},
		{"its filter always fails", state{hook: &hook.Hook{Name: "me",
			Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "pods"}, Kind: "Pod", Modified: true, JQFilter: "."}}},
			progress: started, bindings: []watch.State{{Objects: objects{{}, {}}, Complete: true, Unlocked: true,
				FilterFails: 2, FilterError: "cannot iterate over null"}}}},
		{"its filter fails for one", state{hook: filter, progress: started, bindings: []watch.State{{Objects: objects{{},
			{}}, Complete: true, Unlocked: true, FilterFails: 1, FilterError: "cannot iterate over null"}}}},
		{"a namespace is missing", state{hook: watcher, progress: started,
			bindings: []watch.State{{Objects: event.NoObjects{}, Complete: true, Unlocked: true, Absent: []string{"shpo"}}}}},
		{"its watch has failed", state{hook: watcher, progress: started,
			bindings: []watch.State{{Objects: event.NoObjects{}, Complete: true, Unlocked: true,
				Troubles: []string{"the API server does not serve pods (v1): is its CRD missing? " +
					"If another version is served, set apiVersion to it"}}}}},
	} {
		test.facts.now = now
		e := test.facts.why()
		fmt.Fprintf(&all, "# %s\n%s", test.name, e.text(now))
		for i, r := range e.Reasons {
			fmt.Fprintf(&all, "reason %d: %s, blocks: %t\n", i+1, r.Kind, r.Blocks)
		}
		all.WriteString("\n")
	}
	golden.Compare(t, "testdata/why.golden", all.String())
}

func TestStatesOfAStandby(t *testing.T) {
	one := 1
	enabled := watch.State{Complete: true}
	for _, test := range []struct {
		name    string
		hook    *hook.Hook
		p       Progress
		b       watch.State
		hooks   string
		binding string
	}{
		{"follows", &hook.Hook{Name: "me", Kubernetes: make([]hook.Kubernetes, 1)}, Progress{Standby: true}, enabled, "standby", "standby"},
		{"may not list", &hook.Hook{Name: "me", Kubernetes: make([]hook.Kubernetes, 1)}, Progress{Standby: true, Waiting: "x"}, watch.State{},
			"not enabled", "not enabled"},
		{"has lost its watch", &hook.Hook{Name: "me", Kubernetes: make([]hook.Kubernetes, 1)}, Progress{Standby: true},
			watch.State{Complete: true, Troubles: []string{"x"}}, "standby", "watch failing"},
		{"starts", &hook.Hook{Name: "me", OnStartup: &one}, Progress{Standby: true}, enabled, "standby", "standby"},
		{"answers", &hook.Hook{Name: "me", Validating: make([]hook.Admission, 1)}, Progress{Standby: true}, enabled, "ready", "standby"},
		{"leads", &hook.Hook{Name: "me", Kubernetes: make([]hook.Kubernetes, 1)}, Progress{}, enabled, "starting", "waiting for onStartup"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := state{hook: test.hook, progress: test.p, nextTicks: make([]time.Time, 1)}
			if len(test.hook.Kubernetes) > 0 {
				f.bindings = []watch.State{test.b}
			}
			if got := string(f.why().Verdict); got != test.hooks {
				t.Errorf("the hook is %q, want %q", got, test.hooks)
			}
			if got := watchState(test.p, test.b); got != test.binding {
				t.Errorf("the binding is %q, want %q", got, test.binding)
			}
		})
	}
}

// TestWhyNamesAllThatIsMissing has one reason for each binding and request that fails.
func TestWhyNamesAllThatIsMissing(t *testing.T) {
	h := &hook.Hook{Name: "me", Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "pods"}}, {Binding: hook.Binding{Name: "secrets"}},
		{Binding: hook.Binding{Name: "nodes"}}}}
	s := state{hook: h, progress: Progress{StartedUp: true, Waiting: "x"}, bindings: []watch.State{
		{Objects: event.NoObjects{}, Troubles: []string{"no permission to list pods in a", "no permission to list pods in b"}},
		{Objects: event.NoObjects{}, Complete: true},
		{Objects: event.NoObjects{}, Troubles: []string{"no permission to list nodes"}},
	}}
	e := s.why()
	var texts []string
	for _, r := range e.Reasons {
		texts = append(texts, r.Text)
	}
	want := []string{`binding "pods": no permission to list pods in a`, `binding "pods": no permission to list pods in b`,
		`binding "nodes": no permission to list nodes`, "x"}
	if !slices.Equal(texts, want) {
		t.Errorf("got %q", texts)
	}
}
