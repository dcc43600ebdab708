package recording

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// failing is a hook that prints a line and fails, and the record of its output.
type failing struct{ lines []string }

func (*failing) Joins(*hook.Hook, bool) bool { return true }

func (f *failing) Execute(_ context.Context, in process.Invocation) (process.Result, error) {
	in.Stdout([]byte("out"))
	return process.Result{Usage: process.Usage{Wall: time.Second}}, &process.ExitError{Hook: in.Hook, Status: "exit status 1", Stderr: "err"}
}
func (f *failing) Begin(ctx context.Context, a *run.Attempt) context.Context {
	a.Record = f
	return ctx
}
func (f *failing) Output(line []byte) { f.lines = append(f.lines, string(line)) }
func (*failing) Started(int)          {}
func (*failing) Processed()           {}
func (f *failing) Tail() string       { return strings.Join(f.lines, "\n") }

// The last run that failed by itself is kept, with what it got.
func TestFailedRunIsKept(t *testing.T) {
	k, f := newRecorder(t, Options{}), &failing{}
	files, err := workspace.Open(workspace.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	r := run.New(run.Options{Executor: f, Workspace: files, Log: slog.New(slog.DiscardHandler), Companions: []run.Companion{f, k.Recorder}})
	h := &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "a"}}}}
	r.Add([]*hook.Hook{h})
	task := r.Task(event.Event{Type: event.Change, Hook: h, Watch: event.Added})
	task.Absorb(r.Task(event.Event{Type: event.Change, Hook: h, Watch: event.Modified}))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{t.Context(), t.Context(), ended} {
		if task.Run(ctx) == nil {
			t.Fatal("the run has not failed")
		}
	}
	text, err := k.Read("1")
	if err != nil || text == nil {
		t.Fatalf("there is no recording: %v", err)
	}
	kept, err := Parse(text)
	if err != nil || kept.Run != "1-2" || kept.Attempt != 2 || kept.Result.Exit != "exit status 1" ||
		kept.Result.Error != "h FAILED: err" || !slices.Equal(kept.Result.Output, []string{"out", "out"}) ||
		strings.Count(string(kept.Contexts), `"binding"`) != 2 {
		t.Errorf("%v: the recording is %s", err, text)
	}
}
