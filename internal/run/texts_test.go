package run

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// library has the files of hooks elsewhere, and counts who uses them.
type library struct{ taken, released int }

func (l *library) Take() Text            { l.taken++; return l }
func (l *library) At(path string) string { return "/copy" + path }
func (l *library) Release()              { l.released++ }

type executor func(in process.Invocation) error

func (e executor) Execute(_ context.Context, in process.Invocation) (process.Result, error) {
	return process.Result{}, e(in)
}

// A run uses the files that it was given, and gives them back, however it ends.
func TestTextOfARun(t *testing.T) {
	h := ticks("hooks/h", "a")
	h.Interpreter = []string{"/bin/sh"}
	texts := &library{}
	failure := errors.New("it failed")
	var in process.Invocation
	s := &stage{}
	r := New([]*hook.Hook{h}, Options{
		Executor:  executor(func(i process.Invocation) error { in = i; return failure }),
		Snapshots: s, Effects: s, Workspace: openWorkspace(t), Texts: texts, Log: slog.New(slog.DiscardHandler),
	})
	if err := r.Task(tick(h, 0)).Run(t.Context()); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	if in.Path != "/bin/sh" || !slices.Equal(in.Args, []string{"/copy/hooks/h"}) || in.Dir != "/copy/hooks" || in.Hook != "h" {
		t.Errorf("it ran %s %q in %s", in.Path, in.Args, in.Dir)
	}
	if h.Path != "/hooks/h" || texts.taken != 1 || texts.released != 1 {
		t.Errorf("the hook is at %s, files were taken %d times, given back %d times", h.Path, texts.taken, texts.released)
	}
}
