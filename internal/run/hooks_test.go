package run

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// library has the files of hooks elsewhere, and counts who uses them.
type library struct{ taken, released int }

func (l *library) Take(h *hook.Hook) (string, int, func()) {
	l.taken++
	return "/copy" + h.Path, 1, func() { l.released++ }
}

type executor func(in process.Invocation) error

func (e executor) Execute(_ context.Context, in process.Invocation) (process.Result, error) {
	return process.Result{}, e(in)
}

// tickOf is a hook with a schedule, and its tick.
func tickOf(path string) (*hook.Hook, event.Event) {
	h := &hook.Hook{Name: "h", Path: path, Schedules: []hook.Schedule{{Binding: hook.Binding{Name: "a"}, Queue: hook.MainQueue}}}
	return h, event.Event{Type: event.Tick, Hook: h}
}

// A run uses the files that it was given, and gives them back, however it ends.
func TestFilesOfARun(t *testing.T) {
	h, tick := tickOf("/hooks/h")
	h.Interpreter = []string{"/bin/sh"}
	files := &library{}
	failure := errors.New("it failed")
	var in process.Invocation
	r := New(Options{
		Executor:  executor(func(i process.Invocation) error { in = i; return failure }),
		Workspace: openWorkspace(t), Files: files, Log: slog.New(slog.DiscardHandler),
	})
	r.Add([]*hook.Hook{h})
	if err := r.Task(tick).Run(t.Context()); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	if in.Path != "/bin/sh" || !slices.Equal(in.Args, []string{"/copy/hooks/h"}) || in.Dir != "/copy/hooks" || in.Hook != "h" {
		t.Errorf("it ran %s %q in %s", in.Path, in.Args, in.Dir)
	}
	if h.Path != "/hooks/h" || files.taken != 1 || files.released != 1 {
		t.Errorf("the hook is at %s, files were taken %d times, given back %d times", h.Path, files.taken, files.released)
	}
}

// A hook that is removed during a run runs no more; the run ends as it began, and is not retried.
func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, tick := tickOf("/hooks/h")
		h.Settings.MinInterval = time.Hour
		runs, end := 0, make(chan error)
		r := New(Options{
			Executor:  executor(func(process.Invocation) error { runs++; return <-end }),
			Workspace: openWorkspace(t), Log: slog.New(slog.DiscardHandler),
		})
		r.Add([]*hook.Hook{h})
		done := make(chan error, 1)
		go func() { done <- r.Task(tick).Run(t.Context()) }()
		synctest.Wait()
		idle, since := r.Remove(h)
		if since.IsZero() {
			t.Error("the beginning of the run is not known")
		}
		select {
		case <-idle:
			t.Error("the hook is idle while it runs")
		default:
		}
		if err := r.Task(tick).Run(t.Context()); err != nil || runs != 1 {
			t.Errorf("a task of a removed hook: %v, %d runs", err, runs)
		}
		limit := r.hooks.known[h].limit
		for limit.Allow() { // or the task would wait for the next one, and its queue with it
		}
		if wait, _ := r.Task(tick).Ready(); wait > 0 {
			t.Errorf("a task of a removed hook waits %s for its rate limit", wait)
		}
		end <- errors.New("no luck")
		if err := <-done; err != nil {
			t.Errorf("the run of a removed hook is retried: %v", err)
		}
		<-idle
		r.Forget(h)
		if err := r.Task(tick).Run(t.Context()); err != nil || runs != 1 {
			t.Errorf("a task of a forgotten hook: %v, %d runs", err, runs)
		}
	})
}
