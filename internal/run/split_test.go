package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// delivered is a run: its contexts, and the bytes of the file.
type delivered struct {
	names []string
	size  int
}

// reader is an Executor that notes what it gets, and fails for some runs.
type reader struct {
	t     testing.TB
	runs  []delivered
	fails func(run int) bool
	// heads: the library reads the contexts, so there are heads of them.
	heads bool
}

func (r *reader) Execute(_ context.Context, in process.Invocation) (process.Result, error) {
	path := process.Variable(in.Vars, "BINDING_CONTEXT_PATH")
	text, err := os.ReadFile(path)
	if err != nil {
		return process.Result{}, err
	}
	heads, err := os.ReadFile(strings.TrimSuffix(path, ".json") + ".heads")
	if r.heads && !bytes.Equal(heads, wire.HeadsOf(text)) || !r.heads && !os.IsNotExist(err) {
		r.t.Errorf("%v: the heads are\n%s", err, heads)
	}
	var contexts []struct {
		Binding, Type string
		Object        struct{ Name string }
	}
	if err := json.Unmarshal(text, &contexts); err != nil {
		return process.Result{}, fmt.Errorf("%w in %.100s", err, text)
	}
	var names []string
	for _, c := range contexts {
		names = append(names, c.Binding+c.Object.Name)
	}
	r.runs = append(r.runs, delivered{names, len(text)})
	if r.fails != nil && r.fails(len(r.runs)) {
		return process.Result{}, &process.ExitError{Status: "exit status 1"}
	}
	return process.Result{}, nil
}

// object is a change of an object with a text of that size.
func object(h *hook.Hook, index int, watch event.Watch, name string, size int) event.Event {
	full := fmt.Sprintf(`{"name":%q,"text":%q}`, name, strings.Repeat("x", size))
	return event.Event{Type: event.Change, Hook: h, Index: index, Watch: watch,
		Object: event.Object{Namespace: "a", Name: name, Kind: "Pod", Full: event.Memory(full)}}
}

// drain runs a task and what its runs leave, each until it succeeds.
func drain(t testing.TB, task *Task) {
	for task != nil {
		for attempt := 1; task.Run(t.Context()) != nil; attempt++ {
			if rest := task.Rest(); rest != nil {
				drain(t, rest)
			}
			if attempt > 10 {
				t.Fatal("the task does not succeed")
			}
		}
		task = task.Rest()
	}
}

// fewObjects are the snapshots of all bindings, and effects that do nothing.
type fewObjects struct {
	Snapshots
}

func (fewObjects) Snapshot(*hook.Hook, int) event.Snapshot {
	return many{{Name: "s", Full: event.Memory(`{"name":"s","text":"in each context"}`)}}
}
func (f fewObjects) Synchronize(h *hook.Hook, index int) event.Snapshot { return f.Snapshot(h, index) }
func (fewObjects) Unlock(*hook.Hook, int)                               {}

type noEffects struct{ Effects }

func (noEffects) Apply(context.Context, *slog.Logger, *hook.Hook, Outputs, *Turn, Identify) ([]Change, error) {
	return nil, nil
}

// splitting returns a Runner with a bound, the directory of its runs, and what reads its contexts.
func splitting(t testing.TB, dir string, most int) (*Runner, *reader) {
	files, err := workspace.Open(workspace.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	got := &reader{t: t}
	return New(Options{Executor: got, Workspace: files, Log: slog.New(slog.DiscardHandler), Snapshots: fewObjects{},
		Effects:         noEffects{},
		MaxContextBytes: most}), got
}

// TestSplittingAgainstModel compares the runs of random contexts with those that a plain list gives.
func TestSplittingAgainstModel(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		h := hookOf("-g-")
		h.Kubernetes[2].Includes = []int{0}
		most := rapid.SampledFrom([]int{1, 400, 1000, 3000, 0}).Draw(rt, "most")
		r, got := splitting(t, dir, most)
		h.ShellLibrary = rapid.Bool().Draw(rt, "library")
		got.heads = h.ShellLibrary
		r.Add([]*hook.Hook{h})
		var head *Task
		var want []string
		for i := range rapid.IntRange(1, 30).Draw(rt, "events") {
			index := rapid.IntRange(0, 2).Draw(rt, "binding")
			ev := object(h, index, event.Modified, fmt.Sprint(i), rapid.IntRange(0, 900).Draw(rt, "size"))
			name := ev.Binding().Name + fmt.Sprint(i)
			if index == 1 { // a group has no object, and is one context
				name = ev.Binding().Name
				if len(want) > 0 && want[len(want)-1] == name {
					want = want[:len(want)-1]
				}
			}
			want = append(want, name)
			if next := r.Task(ev); head == nil {
				head = next
			} else if !head.Absorb(next) {
				rt.Fatal("it is not absorbed")
			}
		}
		drain(t, head)
		var all []string
		for i, run := range got.runs {
			all = append(all, run.names...)
			if most > 0 && run.size > most && len(run.names) > 1 {
				rt.Fatalf("a run of %d contexts has %d bytes, at most %d are allowed", len(run.names), run.size, most)
			}
			// It has as many as fit: another file begins and ends with three bytes, of which a comma takes one.
			if i > 0 && len(run.names) == 1 && got.runs[i-1].size+run.size-len("[]") <= most {
				rt.Fatalf("run %d of %d bytes could have had the next context, which has %d", i-1, got.runs[i-1].size, run.size)
			}
		}
		if !slices.Equal(all, want) || most == 0 && len(got.runs) > 1 {
			rt.Fatalf("delivered %q in %d runs, want %q", all, len(got.runs), want)
		}
	})
}

// A failed run keeps its share: neither what it has left nor what comes later joins it.
func TestSplitTaskDoesNotGrow(t *testing.T) {
	h := hookOf("-")
	r, got := splitting(t, t.TempDir(), 2500)
	r.Add([]*hook.Hook{h})
	got.fails = func(run int) bool { return run == 1 }
	head := r.Task(object(h, 0, event.Modified, "1", 1000))
	for i := 2; i <= 5; i++ {
		head.Absorb(r.Task(object(h, 0, event.Modified, fmt.Sprint(i), 1000)))
	}
	if err := head.Run(t.Context()); err == nil {
		t.Fatal("it has not failed")
	}
	rest := head.Rest()
	if rest == nil || head.Rest() != nil || names(rest) != "aaa" {
		t.Fatalf("the run has left %v", rest)
	}
	if head.Absorb(rest) || head.Absorb(r.Task(object(h, 0, event.Modified, "6", 1))) {
		t.Error("the failed task grows")
	}
	if !rest.Absorb(r.Task(object(h, 0, event.Modified, "6", 1))) {
		t.Error("the rest does not absorb")
	}
	drain(t, head)
	drain(t, rest)
	var text []string
	for _, run := range got.runs {
		text = append(text, strings.Join(run.names, ""))
	}
	if want := []string{"a1a2", "a1a2", "a3a4", "a5a6"}; !slices.Equal(text, want) {
		t.Errorf("runs %q, want %q", text, want)
	}
}

// A Synchronization is one run, whatever its size.
func TestSynchronizationIsNotSplit(t *testing.T) {
	h := hookOf("gg")
	r, got := splitting(t, t.TempDir(), 1)
	r.Add([]*hook.Hook{h})
	head := r.Task(event.Event{Type: event.Synchronization, Hook: h})
	if !head.Absorb(r.Task(event.Event{Type: event.Synchronization, Hook: h, Index: 1})) {
		t.Fatal("it is not absorbed")
	}
	drain(t, head)
	if len(got.runs) != 1 {
		t.Errorf("%d runs", len(got.runs))
	}
}
