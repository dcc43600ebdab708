package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// modelHooks differ in everything that decides what goes into one run.
func modelHooks() []*hook.Hook {
	binding := func(name, group string) hook.Kubernetes {
		return hook.Kubernetes{
			Binding: hook.Binding{Name: name, Group: group}, Queue: "side", KeepFullObjects: true,
			Added: true, Modified: true, Deleted: true, WaitForSynchronization: false,
		}
	}
	plain := &hook.Hook{Name: "plain", Kubernetes: []hook.Kubernetes{binding("p0", ""), binding("p1", "")}}
	plain.Kubernetes[1].AllowFailure = true
	grouped := &hook.Hook{
		Name:       "grouped",
		Kubernetes: []hook.Kubernetes{binding("g0", "g"), binding("g1", "g"), binding("h2", "h"), binding("-3", "")},
		Schedules:  []hook.Schedule{{Binding: hook.Binding{Name: "tick", Group: "g"}, Queue: "side", AllowFailure: true}},
	}
	grouped.Kubernetes[1].Initial = hook.InitialNone
	limited := &hook.Hook{
		Name: "limited", Kubernetes: []hook.Kubernetes{binding("l0", ""), binding("l1", "l")},
		Settings: hook.Settings{ContextsPerRun: 3},
	}
	slow := &hook.Hook{
		Name: "slow", Kubernetes: []hook.Kubernetes{binding("s0", ""), binding("s1", "s")},
		Settings: hook.Settings{MinInterval: 30 * time.Second, Burst: 2},
	}
	return []*hook.Hook{plain, grouped, limited, slow}
}

// modelStep is one thing that happens to the queue.
type modelStep struct {
	kind  string
	hook  int
	index int
}

func (s modelStep) String() string { return fmt.Sprint(s.kind, " ", s.hook, ".", s.index) }

var modelSteps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelStep {
	kind := rapid.SampledFrom([]string{"change", "change", "change", "tick", "sync", "good", "good", "bad", "wait"}).Draw(t, "kind")
	s := modelStep{kind: kind, hook: rapid.IntRange(0, 3).Draw(t, "hook")}
	s.index = rapid.IntRange(0, len(modelHooks()[s.hook].Kubernetes)-1).Draw(t, "index")
	if kind == "tick" {
		s.hook, s.index = 1, 0
	}
	return s
}), 1, 60)

// retryDelay and the pause of a "wait" step: after one wait each sleep is over, but not each rate limit.
const retryDelay = 10 * time.Second

// TestRunsAgainstModel compares the contexts of hooks, run by run, and the bindings that are unlocked, with a plain
// model of the rules of merging, groups, retries, rate limits and limits of a run.
func TestRunsAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := modelSteps.Draw(rt, "steps")
		var got []string
		synctest.Test(t, func(t *testing.T) { got = playRuns(t, steps) })
		want := playRunModel(steps)
		for i := range steps {
			if got[i] != want[i] {
				rt.Fatalf("after step %d of %v:\n got %s\nwant %s", i, steps, got[i], want[i])
			}
		}
	})
}

// gatedExecutor is a fake of hooks that end when the test ends them.
type gatedExecutor struct {
	mu sync.Mutex
	// delivered is the context of the hook that runs; gate ends it.
	delivered string
	gate      chan error
	// unlocked are the bindings that have been unlocked.
	unlocked []string
}

func (g *gatedExecutor) Execute(ctx context.Context, in process.Invocation) (process.Result, error) {
	delivered, err := toldBy(in)
	if err != nil {
		return process.Result{}, err
	}
	gate := make(chan error)
	g.mu.Lock()
	g.delivered, g.gate = in.Hook+" "+delivered, gate
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.delivered, g.gate = "", nil
	}()
	select {
	case err := <-gate:
		return process.Result{}, err
	case <-ctx.Done():
		return process.Result{}, ctx.Err()
	}
}

func (g *gatedExecutor) state() (string, chan error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Sprintf("runs [%s], unlocked %v", g.delivered, g.unlocked), g.gate
}

// toldBy reads a run's contexts as a hook would.
func toldBy(in process.Invocation) (string, error) {
	var path string
	for _, kv := range in.Vars {
		if value, ok := strings.CutPrefix(kv, "BINDING_CONTEXT_PATH="); ok {
			path = value
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var contexts []struct {
		Binding, Type, GroupName string
		Object                   *int
	}
	if err := json.Unmarshal(text, &contexts); err != nil {
		return "", fmt.Errorf("%w in %s", err, text)
	}
	var words []string
	for _, c := range contexts {
		word := c.Binding + ":" + c.Type
		switch {
		case c.GroupName != "":
			word = c.Binding + ":group " + c.GroupName
		case c.Object != nil:
			word = fmt.Sprint(c.Binding, ":", *c.Object)
		}
		words = append(words, word)
	}
	return strings.Join(words, " "), nil
}

type noSnapshots struct{ *gatedExecutor }

func (noSnapshots) Object(*hook.Hook, int, string, string) (event.Event, bool) {
	return event.Event{}, false
}
func (noSnapshots) Has(*hook.Hook, int, string, string) bool   { return false }
func (noSnapshots) Snapshot(*hook.Hook, int) event.Snapshot    { return event.NoObjects{} }
func (noSnapshots) Synchronize(*hook.Hook, int) event.Snapshot { return event.NoObjects{} }

func (s noSnapshots) Unlock(h *hook.Hook, index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlocked = append(s.unlocked, h.Kubernetes[index].Name)
}

type noEffects struct{}

func (noEffects) Apply(context.Context, *slog.Logger, *hook.Hook, run.Outputs, *run.Turn, run.Identify) ([]run.Change, error) {
	return nil, nil
}

func (noEffects) Check(*hook.Hook, run.Outputs) error { return nil }

func (noEffects) ApplyFailed(context.Context, *slog.Logger, *hook.Hook, run.Outputs, *run.Turn, run.Identify) ([]run.Change, error) {
	return nil, nil
}

// playRuns returns the running hook and the unlocked bindings after each step.
func playRuns(t *testing.T, steps []modelStep) []string {
	hooks := modelHooks()
	files, err := workspace.Open(workspace.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	executor := &gatedExecutor{}
	log := slog.New(slog.DiscardHandler)
	runner := run.New(run.Options{
		Executor: executor, Snapshots: noSnapshots{executor}, Effects: noEffects{}, Workspace: files, Log: log,
	})
	runner.Add(hooks)
	queues := queue.NewSet(queue.Options{Backoff: func(int) time.Duration { return retryDelay }})
	add := func(ev event.Event) {
		t := Task{Task: runner.Task(ev)}
		queues.Add(t.Queue(), "", t)
	}
	stop, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- queues.Run(stop, stop) }()
	defer func() {
		cancel()
		<-ended
		if err := files.Close(); err != nil {
			t.Error(err)
		}
	}()
	var seen []string
	for i, s := range steps {
		_, gate := executor.state()
		switch s.kind {
		case "change":
			object := event.Object{Full: event.Memory(fmt.Append(nil, i))}
			add(event.Event{Type: event.Change, Hook: hooks[s.hook], Index: s.index, Watch: event.Added, Object: object})
		case "tick":
			add(event.Event{Type: event.Tick, Hook: hooks[s.hook], Index: s.index})
		case "sync":
			add(event.Event{Type: event.Synchronization, Hook: hooks[s.hook], Index: s.index})
		case "good":
			if gate != nil {
				gate <- nil
			}
		case "bad":
			if gate != nil {
				gate <- errors.New("fails")
			}
		case "wait":
			time.Sleep(retryDelay)
		}
		synctest.Wait()
		state, _ := executor.state()
		seen = append(seen, state)
	}
	return seen
}

// runModel is the plain model: one list of waiting things, looked through from the front.
type runModel struct {
	now   time.Duration
	tasks []*waiting
	// taken, runs: the first task waits for its turn, or runs. sleeps is when it may try again.
	taken, runs bool
	sleeps      time.Duration
	// tokens and since are the rate limit of the hook "slow".
	tokens   float64
	since    time.Duration
	unlocked []string
}

// waiting is a task.
type waiting struct {
	hook      *hook.Hook
	sync      bool
	group     string
	delivered []delivered
	unlocks   []string
	mayFail   bool
}

type delivered struct{ text, group string }

// takesOver reports whether one run can have the contexts of both, and merges them.
func (w *waiting) takesOver(next *waiting) bool {
	switch {
	case w.hook != next.hook, len(w.delivered) == 0:
		return false
	case w.sync != next.sync, w.sync && (w.group == "" || w.group != next.group):
		return false
	}
	together := append(slices.Clone(w.delivered), next.delivered...)
	together = lastOfEachGroup(together)
	if limit := w.hook.Settings.ContextsPerRun; limit > 0 && len(together) > limit {
		return false
	}
	w.delivered, w.unlocks, w.mayFail = together, append(w.unlocks, next.unlocks...), w.mayFail && next.mayFail
	return true
}

// lastOfEachGroup leaves out what is followed by its own group.
func lastOfEachGroup(all []delivered) []delivered {
	var kept []delivered
	for i, c := range all {
		if c.group == "" || i+1 == len(all) || all[i+1].group != c.group {
			kept = append(kept, c)
		}
	}
	return kept
}

func (m *runModel) add(w *waiting) {
	if last := len(m.tasks) - 1; last > 0 || last == 0 && !m.taken {
		if m.tasks[last].takesOver(w) {
			return
		}
	}
	m.tasks = append(m.tasks, w)
}

// settle executes all steps that are due now.
func (m *runModel) settle() {
	for len(m.tasks) > 0 && !m.runs && m.now >= m.sleeps {
		head := m.tasks[0]
		m.taken = true
		if s := head.hook.Settings; s.MinInterval > 0 {
			m.tokens = min(float64(s.Burst), m.tokens+float64(m.now-m.since)/float64(s.MinInterval))
			m.since = m.now
			if m.tokens < 1-1e-9 {
				return
			}
			m.tokens--
		}
		for len(m.tasks) > 1 && head.takesOver(m.tasks[1]) {
			m.tasks = slices.Delete(m.tasks, 1, 2)
		}
		if m.runs = len(head.delivered) > 0; !m.runs {
			m.done()
		}
	}
}

func (m *runModel) done() {
	m.unlocked = append(m.unlocked, m.tasks[0].unlocks...)
	m.tasks, m.taken, m.runs = m.tasks[1:], false, false
}

func (m *runModel) end(good bool) {
	switch {
	case !m.runs:
	case good || m.tasks[0].mayFail:
		m.done()
	default:
		m.runs, m.sleeps = false, m.now+retryDelay
	}
}

func (m *runModel) String() string {
	var words []string
	if m.runs {
		words = append(words, m.tasks[0].hook.Name)
		for _, c := range m.tasks[0].delivered {
			words = append(words, c.text)
		}
	}
	return fmt.Sprintf("runs [%s], unlocked %v", strings.Join(words, " "), m.unlocked)
}

// playRunModel returns what playRuns should.
func playRunModel(steps []modelStep) []string {
	hooks := modelHooks()
	m := &runModel{tokens: 2}
	var seen []string
	for i, s := range steps {
		h := hooks[s.hook]
		switch s.kind {
		case "tick":
			b := h.Schedules[s.index]
			m.add(&waiting{hook: h, group: b.Group, mayFail: b.AllowFailure, delivered: []delivered{{b.Name + ":group " + b.Group, b.Group}}})
		case "change", "sync":
			b := h.Kubernetes[s.index]
			w := &waiting{hook: h, sync: s.kind == "sync", group: b.Group, mayFail: b.AllowFailure}
			text := fmt.Sprint(b.Name, ":", i)
			if w.sync {
				text, w.unlocks = b.Name+":Synchronization", []string{b.Name}
			}
			if b.Group != "" {
				text = b.Name + ":group " + b.Group
			}
			if !w.sync || b.Initial == hook.InitialList {
				w.delivered = []delivered{{text, b.Group}}
			}
			m.add(w)
		case "good", "bad":
			m.end(s.kind == "good")
		case "wait":
			// Time passes in small steps, as what is due in between happens in between.
			for range 10 {
				m.now += retryDelay / 10
				m.settle()
			}
		}
		m.settle()
		seen = append(seen, m.String())
	}
	return seen
}
