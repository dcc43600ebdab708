package debug

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/run/worker"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestTroubles compares the status of the operator for each cause with testdata/causes.golden: whether it is healthy, the state of the
// hook, which is the verdict in all views, the kinds of the troubles, and the lines of /readyz.
func TestTroubles(t *testing.T) {
	watching := func(b watch.State) func(*fake) {
		b.Complete, b.Unlocked = true, true
		if b.Objects == nil {
			b.Objects = event.NoObjects{}
		}
		return func(f *fake) { f.bindings["a.sh"] = []watch.State{b} }
	}
	working := func(p worker.Problem) func(*fake) {
		return func(f *fake) { f.workers = map[string]worker.State{"a.sh": {Problems: []worker.Problem{p}}} }
	}
	reported := func(x Trouble) func(*fake) { return func(f *fake) { f.troubles = []Trouble{x} } }
	task := Task{"a.sh", "kubernetes", "pods", "d", ""}
	var all strings.Builder
	for _, row := range []struct {
		name string
		set  func(*fake)
	}{
		{"none", func(*fake) {}},
		{"request fails", watching(watch.State{Troubles: []string{"no permission to\nlist pods"}})},
		{"finalizer", watching(watch.State{Guarding: []string{"3 objects lack it"}})},
		{"filter", watching(watch.State{Objects: objects{{}, {}}, FilterFails: 1, FilterError: "secret-value"})},
		{"rejected hook", func(f *fake) { f.rejected = map[string]hookset.Rejection{"a.sh": {Text: "it is\nno JSON"}} }},
		{"rejected hooks", func(f *fake) { f.rejected = map[string]hookset.Rejection{"": {Text: "two paths"}} }},
		{"lost contexts", func(f *fake) { f.dropped = map[*hook.Hook]int{f.hooks[0]: 3} }},
		{"parked", func(f *fake) {
			f.parked = []pending.ParkedTask{{Hook: f.hooks[0], Queue: "main"}, {Hook: f.hooks[0], Queue: "main"}}
		}},
		{"orphan", func(f *fake) {
			f.orphans = []finalizer.Orphan{{Entry: finalizer.Entry{Finalizer: "x/y", Hook: "gone.sh", Resource: "pods"}, Objects: 1}}
		}},
		{"lost set", func(f *fake) { f.lost = []applyset.Set{{ID: "s-1", Hook: "gone.sh"}} }},
		{"contested set", func(f *fake) {
			f.contested = []applyset.Contested{{Hook: "a.sh", Set: "web", ID: "web-1",
				Notes: []string{"ConfigMap/a is changed repeatedly, by x", "b", "c", "d"}}}
		}},
		{"failing task", func(f *fake) {
			f.queues = []Queue{fifo("main", "", Lane{Phase: queue.Sleeping, Failures: 2, RetryIn: history.Duration(time.Second),
				Error: "secret-value"}, task)}
		}},
		{"failing task in its next attempt", func(f *fake) {
			f.queues = []Queue{fifo("main", "", Lane{Phase: queue.Running, Failures: 2}, task)}
		}},
		{"failing task at a rate limit", func(f *fake) {
			f.hooks[0].Settings.MinInterval = time.Minute
			f.queues = []Queue{fifo("main", "", Lane{Phase: queue.Waiting, Failures: 1}, task)}
		}},
		{"failing lane in its next attempt", func(f *fake) {
			f.queues = []Queue{{Name: "q", Keyed: true, Tasks: 3, Phase: queue.Running, Running: 1, Delayed: 1,
				FirstLanes: []Lane{{Phase: queue.Running, Failures: 1}}}}
		}},
		{"failing lanes that are delayed", func(f *fake) {
			f.queues = []Queue{{Name: "q", Keyed: true, Tasks: 3, Phase: queue.Sleeping, Delayed: 3,
				FirstLanes: []Lane{{Phase: queue.Sleeping, Failures: 1, RetryIn: history.Duration(time.Second)}}}}
		}},
		{"failing lanes", func(f *fake) {
			f.queues = []Queue{{Name: "q", Keyed: true, Tasks: 3, Phase: queue.Running, Running: 1, Delayed: 2}}
		}},
		{"paused hook", func(f *fake) { f.paused = []string{"a.sh"} }},
		{"paused queue", func(f *fake) { f.queues = []Queue{{Name: "main", Paused: true}} }},
		{"registration", reported(Trouble{Kind: InRegistration, Hooks: []string{"a.sh"}, Type: hook.OnMutating,
			Subject: "x", Problem: "no permission"})},
		{"reviews", reported(Trouble{Kind: InReviews, Hooks: []string{"a.sh"}, Type: hook.OnMutating, Binding: "m",
			Subject: "x", Problem: "5 of 5"})},
		{"other reviews", reported(Trouble{Kind: InReviews, Hooks: []string{"a.sh"}, Type: hook.OnMutating, Binding: "n",
			Subject: "x", Problem: "5 of 5"})},
		{"a worker that cannot be started", working(worker.Problem{Failed: 1,
			Cause: "its worker ended with exit status 2\nbefore it was ready"})},
		{"a worker for requests that backs off", func(f *fake) {
			working(worker.Problem{Failed: 4, Client: true, Retry: time.Now().Add(time.Hour),
				Cause: "its worker was not ready after 1m0s"})(f)
		}},
		{"lease", reported(Trouble{Kind: InLease, Subject: "the Lease", Problem: "no permission"})},
		{"not ready", func(f *fake) { f.notReady = "not ready: hooks wait" }},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{
				hooks: []*hook.Hook{{
					Name: "a.sh", Settings: hook.Settings{Worker: &hook.Worker{}},
					Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "pods"}, Kind: "Pod", Modified: true}},
					Mutating:   []hook.Admission{{Binding: hook.Binding{Name: "m"}}},
				}},
				bindings: map[string][]watch.State{"a.sh": {{Objects: event.NoObjects{}, Complete: true, Unlocked: true}}},
				progress: map[string]Progress{"a.sh": {StartedUp: true}},
			}
			row.set(f)
			o := operate(f)
			s := o.api().statusAt(time.Now(), false)
			state := s.Hooks[0].State
			for path, want := range map[string]string{"/hook/a.sh/why.json": `"verdict":"` + state + `"`,
				"/hook/a.sh/why": "a.sh: " + state + "\n", "/hooks.json": `"state":"` + state + `"`,
				"/status": "hooks: 1 (1 " + state + ")"} {
				if text := ask(o.api(), "GET", path, nil).Body.String(); !strings.Contains(text, want) {
					t.Errorf("%s: %s lacks %q: %s", row.name, path, want, text)
				}
			}
			text, page := s.Text(time.Now()), ask(o.page(), "GET", "/", nil).Body.String()
			fmt.Fprintf(&all, "# %s\nhealthy: %t\n%s", row.name, s.Healthy, text)
			for _, x := range s.Troubles {
				fmt.Fprintf(&all, "%s, notice: %t, /readyz: %s\n", x.Kind, x.Notice, x.Note())
			}
			all.WriteString("\n")
			if !strings.Contains(page, ">"+state+"</span>") {
				t.Errorf("%s: the page lacks the state %q", row.name, state)
			}
			if isOne := len(s.Troubles) > 0 || f.notReady != ""; isOne && !strings.Contains(page, `class="trouble"`) ||
				strings.Contains(page+text, "secret-value") {
				t.Errorf("%s: the page has no problem, or a value:\n%s", row.name, page)
			}
			if body := ask(o.page(), "GET", "/status.json", nil).Body.String(); !strings.Contains(body, `"troubles":[`) ||
				strings.Contains(body, "secret-value") {
				t.Errorf("%s: /status.json: %s", row.name, body)
			}
		})
	}
	golden.Compare(t, "testdata/causes.golden", all.String())
}

// TestTroublesAge: a trouble keeps the time of its first report while it is there, and has its action.
func TestTroublesAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
		f := theOperator()
		api := operate(f).api()
		lines := func() string {
			var b strings.Builder
			for _, x := range api.Troubles() {
				if x.Kind != InParked && x.Kind != InQueue && x.Kind != IsPaused {
					continue
				}
				fmt.Fprintf(&b, "%s %s %s:", x.Since.Format(time.TimeOnly), x.Kind, x.Subject)
				for _, a := range x.Actions() {
					fmt.Fprintf(&b, " %s?%s", a.Name, a.Form.Encode())
				}
				b.WriteString("\n")
			}
			return b.String()
		}
		lines()
		time.Sleep(time.Minute)
		f.paused = []string{"big.py"}
		golden.Compare(t, "testdata/troubles.golden", lines())
	})
}

// TestJoined: one cause of several troubles is one line.
func TestJoined(t *testing.T) {
	on := func(hook, subject, problem string) Trouble {
		return Trouble{Kind: InWatch, Hooks: []string{hook}, Subject: subject, Problem: problem}
	}
	all := []Trouble{
		on("a", `a, binding "x"`, "refused"), on("a", `a, binding "y"`, "refused"), on("a", `a, binding "z"`, "other"),
		on("b", "b", "refused"), on("a", `a, binding "v"`, "refused"),
		{Kind: InSpool, Subject: "the search", Problem: "refused"}, {Kind: InSpool, Subject: "the Lease", Problem: "refused"},
		{Kind: IsPaused, Hooks: []string{"a"}, Subject: "hook a", Problem: "is paused", Notice: true},
		{Kind: IsPaused, Hooks: []string{"a"}, Subject: "queue a", Problem: "is paused", Notice: true},
		on("c", "c", "no permission to list pods: rule"), on("c", "c", "no permission to list pods: rule"),
		on("c", "c", "no permission to watch nodes: rule"),
	}
	var got []string
	for _, one := range joined(all) {
		got = append(got, one.String())
	}
	want := `refused (4 bindings of 2 hooks)|a, binding "z": other|the search: refused|the Lease: refused|hook a is paused|queue a is ` +
		`paused|no permission to list pods, watch nodes (3 bindings of 1 hook) (shell-operator rbac prints all rules)`
	if text := strings.Join(got, "|"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if all[0].Subject != `a, binding "x"` {
		t.Error("the list of the caller is changed")
	}
}
