package debug

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/run/worker"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestTroubles has a row for each cause: its line, whether the operator is healthy with it, and the state of the hook, which is the verdict
// in all views.
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
	for name, row := range map[string]struct {
		set         func(*fake)
		kind        TroubleKind
		line, state string
		healthy     bool
		note        string
	}{
		"none": {set: func(*fake) {}, state: "ready", healthy: true},
		"request fails": {watching(watch.State{Troubles: []string{"no permission to\nlist pods"}}), InWatch,
			`a.sh, binding "pods": no permission to list pods`, "watch failing", false, `hook "a.sh", binding "pods": no permission to list pods`},
		"finalizer": {watching(watch.State{Finalizing: []string{"3 objects lack it"}}), InFinalizer, `a.sh, binding "pods": 3 objects lack it`,
			"blocked", false, ""},
		"filter": {watching(watch.State{Objects: objects{{}, {}}, FilterFails: 1, FilterError: "secret-value"}), InFilter,
			`a.sh, binding "pods": its filter fails for 1 of 2 objects (shell-operator why a.sh; `, "ready", false, ""},
		"rejected hook": {func(f *fake) { f.rejected = map[string]string{"a.sh": "it is\nno JSON"} }, InReload,
			"a.sh: the last reload was rejected, the previous hooks stay active: it is no JSON", "ready", false, ""},
		"rejected hooks": {func(f *fake) { f.rejected = map[string]string{"": "two paths"} }, InReload,
			"hooks: the last reload was rejected, the previous hooks stay active: two paths", "ready", false, ""},
		"lost contexts": {func(f *fake) { f.dropped = map[*hook.Hook]int{f.hooks[0]: 3} }, InParked,
			`a.sh: --max-parked has dropped 3 parked contexts since its last successful run: its log records name them; hook trigger runs ` +
				`a binding for all its objects`, "ready", false, ""},
		"parked": {func(f *fake) {
			f.parked = []pending.ParkedTask{{Hook: f.hooks[0], Queue: "main"}, {Hook: f.hooks[0], Queue: "main"}}
		}, InParked,
			`a.sh, queue "main": 2 tasks parked after the last attempt (shell-operator parked list)`, "ready", false, ""},
		"another operator": {func(f *fake) { f.other = "process pod/2" }, InFinalizer,
			`the instance name "shop.operator": another operator has claimed finalizers with it: process pod/2`,
			"ready", false, ""},
		"orphan": {func(f *fake) {
			f.orphans = []finalizer.Orphan{{Entry: finalizer.Entry{Finalizer: "x/y", Hook: "gone.sh", Resource: "pods"}, Objects: 1}}
		}, InFinalizer,
			"gone.sh: 1 object of pods keep the finalizer x/y", "ready", false,
			`1 objects of pods keep the finalizer x/y of hook "gone.sh", which is gone`},
		"lost set": {func(f *fake) { f.lost = []applyset.Set{{ID: "s-1", Hook: "gone.sh"}} }, InSet,
			"gone.sh: its hook is gone, and 1 set of objects left: s-1", "ready", false,
			`the hook "gone.sh" is gone, its sets of objects are left: 1`},
		"contested set": {func(f *fake) {
			f.contested = []applyset.Contested{{Hook: "a.sh", Set: "web", ID: "web-1",
				Notes: []string{"ConfigMap/a is changed repeatedly, by x", "b", "c", "d"}}}
		}, InSet, `a.sh, set "web": ConfigMap/a is changed repeatedly, by x; b; c; and 1 more (shell-operator sets show web-1)`,
			"ready", false, ""},
		"failing task": {func(f *fake) {
			f.queues = []Queue{{Name: "main", Length: 1, Phase: Sleeping, Failures: 2, Left: time.Second, LastError: "secret-value",
				Tasks: []Task{{"d", "a.sh", "kubernetes", "pods", ""}}}}
		}, InQueue, `queue "main": a.sh · kubernetes · pods has failed 2 times, the next attempt is in 1s`, "failing", false, ""},
		"failing task in its next attempt": {func(f *fake) {
			f.queues = []Queue{{Name: "main", Length: 1, Phase: Running, Failures: 2, Tasks: []Task{{"d", "a.sh", "kubernetes", "pods", ""}}}}
		}, InQueue, `queue "main": a.sh · kubernetes · pods has failed 2 times, the next attempt is in progress`, "running", false, ""},
		"failing task at a rate limit": {func(f *fake) {
			f.hooks[0].Settings.MinInterval = time.Minute
			f.queues = []Queue{{Name: "main", Length: 1, Phase: Waiting, Failures: 1, Tasks: []Task{{"d", "a.sh", "kubernetes", "pods", ""}}}}
		}, InQueue, `queue "main": a.sh · kubernetes · pods has failed once, the next attempt waits for the rate limit of the hook`,
			"rate limit", false, ""},
		"failing lane in its next attempt": {func(f *fake) {
			f.queues = []Queue{{Name: "q", Keyed: true, Length: 3, Phase: Running, Running: 1, Lanes: []Lane{{Phase: Running, Failures: 1}}}}
		}, InQueue, `queue "q": failed tasks are in their next attempt, tasks of the queue: 3`, "ready", false, ""},
		"failing lanes": {func(f *fake) {
			f.queues = []Queue{{Name: "q", Keyed: true, Length: 3, Phase: Running, Running: 1, Delayed: 2}}
		}, InQueue, `queue "q": failed tasks wait for their next attempt, lanes: 2, tasks of the queue: 3`, "ready", false, ""},
		"paused hook": {func(f *fake) { f.paused = []string{"a.sh"} }, IsPaused, "a.sh is paused (shell-operator hook resume a.sh)",
			"paused", true, ""},
		"paused queue": {func(f *fake) { f.queues = []Queue{{Name: "main", Paused: true}} }, IsPaused,
			`queue "main" is paused with 0 tasks (shell-operator queue resume main)`, "ready", true, ""},
		"registration": {reported(Trouble{Kind: InRegistration, Hooks: []string{"a.sh"}, Type: hook.OnMutating, Subject: "x",
			Problem: "no permission"}), InRegistration, "x: no permission", notRegistered, false, ""},
		"reviews": {reported(Trouble{Kind: InReviews, Hooks: []string{"a.sh"}, Type: hook.OnMutating, Binding: "m", Subject: "x",
			Problem: "5 of 5"}), InReviews, "x: 5 of 5", reviewsFail, false, ""},
		"other reviews": {reported(Trouble{Kind: InReviews, Hooks: []string{"a.sh"}, Type: hook.OnMutating, Binding: "n", Subject: "x",
			Problem: "5 of 5"}), InReviews, "x: 5 of 5", "ready", false, ""},
		"a worker that cannot be started": {working(worker.Problem{Failed: 1, Cause: "its worker ended with exit status 2\nbefore it was ready"}),
			InWorker, "a.sh: 1 start of its worker has failed, the next one comes with a run: its worker ended with exit status 2 before it was " +
				"ready: the log has what it printed", "worker failing", false, `hook "a.sh": 1 start of its worker has failed, the next one comes ` +
				"with a run: its worker ended with exit status 2 before it was ready"},
		"a worker for requests that backs off": {working(worker.Problem{Failed: 4, Client: true, Retry: time.Now().Add(time.Hour),
			Cause: "its worker was not ready after 1m0s"}), InWorker, "a.sh: 4 starts of its worker for requests have failed, the next one is in ",
			"worker failing", false, ""},
		"a new worker for each run": {working(worker.Problem{Lost: 3, Cause: "its worker ended with exit status 0"}), InWorker,
			"a.sh: the last 3 workers have ended by themselves after at most one run, so each run waits for a start: its worker ended with exit " +
				"status 0: serve runs until", "worker failing", false, ""},
		"lease": {reported(Trouble{Kind: InLease, Subject: "the Lease", Problem: "no permission"}), InLease, "the Lease: no permission",
			"ready", false, "the Lease: no permission"},
		"not ready": {func(f *fake) { f.notReady = "not ready: hooks wait" }, "", "not ready: hooks wait", "ready", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
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
			s := o.api().statusAt(time.Now())
			if s.Healthy != row.healthy || s.Hooks[0].State != row.state {
				t.Errorf("healthy: %v, the hook: %s", s.Healthy, s.Hooks[0].State)
			}
			for path, want := range map[string]string{"/hook/a.sh/why.json": `"verdict":"` + row.state + `"`,
				"/hook/a.sh/why": "a.sh: " + row.state + "\n", "/hooks.json": `"state":"` + row.state + `"`,
				"/status": "hooks: 1 (1 " + row.state + ")"} {
				if text := ask(o.api(), "GET", path, nil).Body.String(); !strings.Contains(text, want) {
					t.Errorf("%s lacks %q: %s", path, want, text)
				}
			}
			if row.kind != "" && !slices.ContainsFunc(s.Troubles, func(x Trouble) bool {
				return x.Kind == row.kind && x.Notice == row.healthy && strings.HasPrefix(x.String(), row.line)
			}) {
				t.Errorf("troubles %+v", s.Troubles)
			}
			if len(s.Troubles) == 1 && row.note != "" && s.Troubles[0].Note() != row.note {
				t.Errorf("the line of /readyz: %s, want %s", s.Troubles[0].Note(), row.note)
			}
			text, page := s.Text(time.Now()), ask(o.page(), "GET", "/", nil).Body.String()
			if row.line != "" && !strings.Contains(text, "\n- "+row.line) {
				t.Errorf("the text lacks the line:\n%s", text)
			}
			if !strings.Contains(page, ">"+row.state+"</span>") {
				t.Errorf("the page lacks the state %q", row.state)
			}
			if row.line != "" && !strings.Contains(page, `class="trouble"`) || strings.Contains(page+text, "secret-value") {
				t.Errorf("the page has no problem, or a value:\n%s", page)
			}
			if body := ask(o.page(), "GET", "/status.json", nil).Body.String(); !strings.Contains(body, `"troubles":[`) ||
				strings.Contains(body, "secret-value") {
				t.Errorf("/status.json: %s", body)
			}
		})
	}
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
		{Kind: InAPI, Subject: "the search", Problem: "refused"}, {Kind: InAPI, Subject: "the Lease", Problem: "refused"},
		{Kind: IsPaused, Hooks: []string{"a"}, Subject: "hook a", Problem: "is paused", Notice: true},
		{Kind: IsPaused, Hooks: []string{"a"}, Subject: "queue a", Problem: "is paused", Notice: true},
	}
	var got []string
	for _, one := range joined(all) {
		got = append(got, one.String())
	}
	want := `a, binding "x" and 2 more: refused|a, binding "z": other|b: refused|the search: refused|the Lease: refused|hook a is ` +
		`paused|queue a is paused`
	if text := strings.Join(got, "|"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if all[0].Subject != `a, binding "x"` {
		t.Error("the list of the caller is changed")
	}
}
