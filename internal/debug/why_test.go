package debug

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

// state is what all topics know of a hook.
type state struct {
	hook      *hook.Hook
	progress  Progress
	bindings  []watch.State
	nextTicks []time.Time
	queues    []Queue
	runs      []history.Run
	rejected  map[string]string
	oneByOne  string
	timeout   time.Duration
	now       time.Time
}

// why explains the hook as the topics do together.
func (s *state) why() Explanation {
	reasons := slices.Concat(
		(&queued{s.hook, s.queues, func(string) []history.Run { return s.runs }, s.timeout, s.now}).reasons(),
		(&facts{s.hook, s.progress, s.bindings, s.nextTicks, s.queues, s.now, make([]Deletions, len(s.bindings))}).reasons(),
		notReloaded(s.hook.Name, s.rejected),
		HooksTopic(nil, nil, nil, func(*hook.Hook) string { return s.oneByOne }).Notes(s.hook, s.now), calling(s.runs),
	)
	return explain(s.hook.Name, reasons, s.runs)
}

func TestWhy(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	started := Progress{StartedUp: true, Ticking: true}
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
	mine, other := Task{"T:me", "me", "kubernetes", "pods", ""}, Task{"T:other", "other", "kubernetes", "cms", ""}
	queue := func(phase Phase, tasks ...Task) []Queue {
		q := Queue{Name: "q", Phase: phase, Tasks: tasks, Length: len(tasks), Since: now.Add(-90 * time.Second)}
		if phase == Sleeping {
			q.Failures, q.LastError, q.Left = 3, "it FAILED:\nboom", 7*time.Second
		}
		return []Queue{q}
	}
	for _, test := range []struct {
		name    string
		facts   state
		verdict Verdict
		first   ReasonKind
		says    string // of the first reason
		blocks  bool
	}{
		{"listens", state{hook: watcher, progress: started, bindings: watching}, IsReady, ByEvents,
			`binding "pods" sees 2 objects of kind Pod and waits for: Added, Modified`, false},
		{"listens by a filter", state{hook: filter, progress: started, bindings: watching}, IsReady, ByEvents,
			"where the result of its jqFilter changes", false},
		{"for snapshots only", state{hook: snapshots, progress: started, bindings: watching}, IsReady, ByEvents, "for snapshots only", false},
		{"has an optional kind that is missing", state{hook: optional, progress: started,
			bindings: []watch.State{{Objects: event.NoObjects{}, NotInstalled: true}}}, IsIdle, ByWatch,
			`binding "monitors": the kind ServiceMonitor of monitoring.coreos.com/v1 is not installed, its snapshot is empty`, false},
		{"waits for the clock", state{hook: clock, progress: started, nextTicks: []time.Time{now.Add(15 * time.Hour)}}, IsReady, ByClock,
			"is due at 2030-01-02T03:00:00Z, in 15h0m0s", false},
		{"its clock does not tick yet", state{hook: clock, progress: Progress{StartedUp: true}, nextTicks: []time.Time{{}}}, "synchronizing",
			ByFirstRun, "its schedules start after the Synchronization runs queued before them", true},
		{"answers", state{hook: reviewer, progress: started}, IsReady, ByReviews,
			"2 webhook bindings: it runs for each request of the API server", false},
		{"answers requests", state{hook: server, progress: started}, IsReady, ByRequests,
			"1 HTTP binding: it runs for each request of a client", false},
		{"standby with webhooks", state{hook: reviewer, progress: Progress{Standby: true}}, IsReady, ByReviews, "2 webhook bindings", false},
		{"ran at the start", state{hook: starter, progress: started}, IsIdle, ByNoBindings, "onStartup is its only binding", false},
		{"was rejected", state{hook: &hook.Hook{Name: "me"}, progress: started, rejected: map[string]string{"me": "it is\nwrong"}}, IsIdle,
			ByReload, "the last reload was rejected: it is wrong", false},
		{"another hook was rejected", state{hook: &hook.Hook{Name: "me"}, progress: started, rejected: map[string]string{"b": "secret"}}, IsIdle,
			ByReload, "the last reload was rejected: shell-operator status shows the cause", false},
		{"runs once per context", state{hook: &hook.Hook{Name: "me"}, progress: started, oneByOne: "me:3: jq .[0].object"}, IsIdle, ByScript,
			"it runs once per context, because its script reads event data of the first context only: me:3: jq .[0].object", false},
		{"called kubectl",
			state{hook: &hook.Hook{Name: "me"}, progress: started,
				runs: []history.Run{{ID: "5-1"},
					{ID: "4-1", Kubectl: []history.KubectlCalls{{Verb: "get", Way: "trimmed", Count: 2}, {Verb: "get", Way: "complete", Reason: "flag",
						Count: 1}}}}}, IsIdle, ByKubectl, "run 4-1 called kubectl: 2 × get, trimmed; 1 × get, complete (flag)", false},
		{"has no bindings", state{hook: &hook.Hook{Name: "me"}, progress: started}, IsIdle, "", "", false},

		{"runs", state{hook: watcher, progress: started, bindings: watching, queues: queue(Running, mine),
			runs: []history.Run{{ID: "4-1", Queue: "q", Status: history.Running}}}, IsRunning, ByItsOwnRun,
			"it has been running as 4-1 for 1m30s", false},
		{"runs with a time limit", state{hook: timed, progress: started, bindings: watching, queues: queue(Running, mine)}, IsRunning,
			ByItsOwnRun, "it has been running for 1m30s; it is ended after 12s", false},
		{"runs with the default time limit",
			state{hook: watcher, timeout: 2 * time.Minute, progress: started, bindings: watching, queues: queue(Running, mine)}, IsRunning,
			ByItsOwnRun, "it is ended after 2m0s", false},
		{"applies operations", state{hook: timed, progress: started, bindings: watching, queues: queue(Running, mine),
			runs: []history.Run{{ID: "4-1", Queue: "q", Status: history.Running, Phases: []history.Phase{{Name: history.Applying}}}}}, IsRunning,
			ByItsOwnRun, "it has been running as 4-1 for 1m30s; the hook has ended, the operator applies its output", false},
		{"is tried again", state{hook: watcher, progress: started, bindings: watching, queues: queue(Sleeping, mine, other)}, "failing", ByRetry,
			`queue "q": its task is the first of 2: T:me; it has failed 3 times, the next attempt is in 7s: it FAILED: boom`, true},
		{"waits for its rate limit", state{hook: limited, progress: started, bindings: watching, queues: queue(Waiting, mine)}, "rate limit",
			ByRateLimit, "(executionMinInterval 1m0s, executionBurst 1)", true},
		{"waits for its own changes", state{hook: watcher, progress: started, bindings: watching, queues: queue(Waiting, mine)}, IsQueued,
			ByQueue, "it waits until the snapshots have the hook's own changes, 5 s at most", true},
		{"is about to start", state{hook: watcher, progress: started, bindings: watching, queues: queue(Idle, mine)}, IsQueued, ByQueue,
			"it is about to start", false},
		{"may not begin", state{hook: watcher, progress: started, bindings: watching, queues: []Queue{{Name: "q", Phase: Sleeping, Length: 1,
			Tasks: []Task{mine}, Left: 7 * time.Second}}}, "failing", ByRetry, "it may not begin yet, the next attempt is in 7s at the latest",
			true},
		{"is behind one that fails", state{hook: watcher, progress: started, bindings: watching, queues: queue(Sleeping, other, other, mine)},
			IsQueued, ByQueue, "its task is number 3 of 3, behind T:other, which has failed 3 times, its next attempt is in 7s: it FAILED: boom",
			true},
		{"is behind one that runs", state{hook: watcher, progress: started, bindings: watching, queues: queue(Running, other, mine)}, IsQueued,
			ByQueue, "number 2 of 2, behind T:other, which has been running for 1m30s", true},
		{"is behind one that may not run", state{hook: watcher, progress: started, bindings: watching, queues: queue(Waiting, other, mine)},
			IsQueued, ByQueue, "which waits for its rate limit", true},
		{"is behind one that is about to start", state{hook: watcher, progress: started, bindings: watching, queues: queue(Idle, other, mine)},
			IsQueued, ByQueue, "number 2 of 2, behind T:other", true},
		{"is stopped", state{hook: watcher, progress: started, bindings: watching, queues: queue(Stopped, mine)}, IsBlocked, ByShutdown,
			"the operator is shutting down", true},
		{"is stopped behind another", state{hook: watcher, progress: started, bindings: watching, queues: queue(Stopped, other, mine)}, IsBlocked,
			ByShutdown, "the operator is shutting down", true},
		{"has a task in a queue, runs in another",
			state{hook: watcher, progress: started, bindings: watching, queues: append(queue(Sleeping, other, mine),
				Queue{Name: "r", Phase: Running, Since: now, Length: 1, Tasks: []Task{mine}})}, IsRunning, ByQueue, "behind T:other", true},

		{"waiting for onStartup",
			state{hook: watcher, bindings: []watch.State{{Objects: event.NoObjects{}}},
				queues: []Queue{{Name: "main", Failures: 2, LastError: "x", Length: 1, Phase: Sleeping, Tasks: []Task{other}}}}, "starting", ByStartup,
			"and this one has not: other, which has failed 2 times: x", true},
		{"waits for onStartup that goes well",
			state{hook: watcher, bindings: []watch.State{{Objects: event.NoObjects{}}},
				queues: []Queue{{Name: "main", Length: 1, Phase: Running, Tasks: []Task{other}}}}, "starting", ByStartup,
			"and this one has not: other", true},
		{"standby", state{hook: watcher, progress: Progress{Standby: true, Leader: "operator-7"},
			bindings: []watch.State{{Objects: objects{{}}, Complete: true}}}, IsStandby, ByReplica,
			`the leader "operator-7" runs the hooks; this replica is a standby`, true},
		{"standby without a leader", state{hook: clock, progress: Progress{Standby: true}, nextTicks: []time.Time{{}}}, IsStandby, ByReplica,
			"no replica leads", true},
		{"on another shard", state{hook: clock, progress: Progress{Standby: true, Elsewhere: "the hook runs on shard 0", Where: "see there"},
			nextTicks: []time.Time{{}}}, IsStandby, ByReplica, "the hook runs on shard 0", true},
		{"standby with its onStartup run", state{hook: starter, progress: Progress{Standby: true, Leader: "operator-7"}}, IsStandby, ByReplica,
			`"operator-7"`, true},
		{"standby without its bindings",
			state{hook: watcher, progress: Progress{Standby: true, Leader: "operator-7", Waiting: "x"},
				bindings: []watch.State{{Objects: event.NoObjects{}, Troubles: []string{"no permission to list pods (v1): give the rule"}}}},
			"not enabled",
			ByEnabling, "no permission to list pods (v1): give the rule", true},
		{"answers, as a standby too", state{hook: reviewer, progress: Progress{Standby: true, Leader: "operator-7"}}, IsReady, ByReviews,
			"2 webhook bindings", false},
		{"is not enabled",
			state{hook: watcher, progress: Progress{StartedUp: true, Waiting: "x"},
				bindings: []watch.State{{Objects: event.NoObjects{}, Troubles: []string{"no permission to list pods (v1): give the rule"}}}},
			"not enabled",
			ByEnabling, "no permission to list pods (v1): give the rule", true},
		{"is being enabled", state{hook: watcher, progress: Progress{StartedUp: true, Waiting: "its kubernetes bindings are being enabled"},
			bindings: []watch.State{{Objects: event.NoObjects{}}}}, "not enabled", ByEnabling, "its kubernetes bindings are being enabled", true},
		{"its Synchronization is not over",
			state{hook: watcher, progress: started, bindings: []watch.State{{Objects: event.NoObjects{}, Complete: true, Held: 4}}}, "synchronizing",
			ByFirstRun, "events wait (4 so far) until its Synchronization run has succeeded", true},
		{"its filter always fails",
			state{hook: &hook.Hook{Name: "me",
				Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "pods"}, Kind: "Pod", Modified: true, JQFilter: "."}}}, progress: started,
				bindings: []watch.State{{Objects: objects{{}, {}}, Complete: true, Unlocked: true, FilterFails: 2,
					FilterError: "cannot iterate over null"}}}, IsBlocked, ByFilter,
			`binding "pods": its filter fails for 2 of 2 objects (cannot iterate over null), so nothing ever changes`, true},
		{"its filter fails for one",
			state{hook: filter, progress: started,
				bindings: []watch.State{{Objects: objects{{}, {}}, Complete: true, Unlocked: true, FilterFails: 1,
					FilterError: "cannot iterate over null"}}}, IsReady, ByFilter,
			`binding "pods": its filter fails for 1 of 2 objects (cannot iterate over null), so nothing changes for these`, false},
		{"a namespace is missing",
			state{hook: watcher, progress: started,
				bindings: []watch.State{{Objects: event.NoObjects{}, Complete: true, Unlocked: true, Absent: []string{"shpo"}}}}, IsReady, ByWatch,
			`binding "pods": the namespace "shpo" did not exist when the binding was enabled, and it has no objects`, false},
		{"its watch has failed",
			state{hook: watcher, progress: started,
				bindings: []watch.State{
					{Objects: event.NoObjects{}, Complete: true, Unlocked: true,
						Troubles: []string{"the API server does not serve pods (v1): is its CRD missing?"}}}}, watchFailing, ByWatch,
			`binding "pods" receives no changes now: the API server does not serve pods (v1): is its CRD missing?`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.facts.now = now
			e := test.facts.why()
			if e.Verdict != test.verdict {
				t.Errorf("verdict %q, want %q", e.Verdict, test.verdict)
			}
			if test.first == "" {
				if len(e.Reasons) > 0 {
					t.Errorf("reasons %+v", e.Reasons)
				}
				return
			}
			if len(e.Reasons) == 0 {
				t.Fatal("no reasons")
			}
			if r := e.Reasons[0]; r.Kind != test.first || !strings.Contains(r.Text, test.says) || r.Blocks != test.blocks {
				t.Errorf("first reason %+v", r)
			}
			if text := e.text(now); !strings.HasPrefix(text, "me: "+string(test.verdict)+"\n- "+e.Reasons[0].Text) {
				t.Errorf("text\n%s", text)
			}
		})
	}
}

func TestWhyOfAStandby(t *testing.T) {
	f := state{hook: &hook.Hook{Name: "me", Schedules: make([]hook.Schedule, 1), Validating: make([]hook.Admission, 1)},
		progress: Progress{Standby: true, Leader: "operator-7"}, nextTicks: make([]time.Time, 1)}
	e := f.why()
	const want = `me: standby
- the leader "operator-7" runs the hooks; this replica is a standby
  run this there: shell-operator why me
- 1 webhook binding: it runs for each request of the API server
last run: none since the operator started, or no longer remembered
`
	if got := e.text(f.now); got != want {
		t.Errorf("got\n%s", got)
	}
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
	want := []string{
		`binding "pods" is not enabled yet: no permission to list pods in a`, `binding "pods" is not enabled yet: no permission to ` +
			`list pods in b`,
		`binding "nodes" is not enabled yet: no permission to list nodes`,
	}
	if !slices.Equal(texts, want) {
		t.Errorf("got %q", texts)
	}
}
