package run

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// hanging runs until its context ends, and reports that its process runs.
type hangingExecutor struct{ runs chan<- int }

func (e hangingExecutor) Execute(ctx context.Context, in process.Invocation) (process.Result, error) {
	in.Started(4711)
	e.runs <- 4711
	<-ctx.Done()
	return process.Result{}, context.Cause(ctx)
}

// A stopped run is a failed attempt, and Stop returns why no other one follows.
func TestStop(t *testing.T) {
	two := 2
	for _, test := range []struct {
		name string
		set  func(*hook.Hook, *Runner)
		last string
	}{
		{"retried", func(*hook.Hook, *Runner) {}, ""},
		{"the last of two is parked", func(h *hook.Hook, _ *Runner) { h.Settings.Retry = &hook.Retry{Limit: &two} }, "its contexts are parked"},
		{"the last of two is dropped", func(h *hook.Hook, _ *Runner) {
			h.Settings.Retry = &hook.Retry{Limit: &two, Exhausted: hook.Drop}
		}, "its contexts are dropped"},
		{"failure is allowed", func(h *hook.Hook, _ *Runner) { h.Kubernetes[0].AllowFailure = true }, "allows failure"},
		{"removed meanwhile", func(h *hook.Hook, r *Runner) { r.Remove(h) }, "changed, removed or paused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			runs, h, rec := make(chan int), hookOf("-"), &recorder{}
			r := New(Options{Executor: hangingExecutor{runs}, Workspace: openWorkspace(t), Log: slog.New(slog.DiscardHandler),
				Companions: []Companion{rec}})
			r.Add([]*hook.Hook{h})
			task := r.Task(change(h, 0))
			task.Starting("", 1, 0)
			ended := make(chan error)
			go func() { ended <- task.Run(context.Background()) }()
			<-runs
			test.set(h, r)
			id := task.RunID()
			if _, ok := r.Stop("none-1", false); ok {
				t.Error("an unknown run is stopped")
			}
			dry, _ := r.Stop(id, true)
			got, ok := r.Stop(id, false)
			if !ok || got != dry || got.Attempt != 2 || (got.Last == "") != (test.last == "") || !strings.Contains(got.Last, test.last) {
				t.Errorf("%+v, the dry run %+v", got, dry)
			}
			err := <-ended
			if failed := test.last == "" || strings.Contains(test.last, "contexts"); failed != (err != nil) {
				t.Error(err)
			}
			if exit := rec.report.Exit(); exit != "ended by runs stop" || rec.report.Interrupted || rec.pid != 4711 {
				t.Errorf("%q, interrupted %t, pid %d", exit, rec.report.Interrupted, rec.pid)
			}
			if _, ok := r.Stop(id, false); ok {
				t.Error("a run that has ended is stopped")
			}
		})
	}
}
