package run

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// Line "every run has bounds": what is logged of a run is bounded, and one record reports that the rest is dropped.
func TestOutputIsBounded(t *testing.T) {
	for set, want := range map[int]int64{0: 1 << 20, 4096: 4096} {
		var log strings.Builder
		h := hookOf("--")
		h.Settings.MaxLogBytes = set
		r := New(Options{Executor: executor(func(in process.Invocation) error {
			if in.Output != want {
				t.Errorf("with %d the bound is %d", set, in.Output)
			}
			in.Dropped()
			return io.ErrUnexpectedEOF
		}), Workspace: openWorkspace(t), Log: slog.New(slog.NewTextHandler(&log, nil))})
		r.Add([]*hook.Hook{h})
		if err := r.Task(change(h, 0)).Run(t.Context()); err == nil {
			t.Error("the run has not failed")
		}
		if !strings.Contains(log.String(), "The hook has printed more than is logged of a run, the rest is dropped") {
			t.Errorf("the log: %s", log.String())
		}
	}
}

// The message of a hook is the error of its failed run, and the end of the process can be found in it.
func TestMessageIsTheError(t *testing.T) {
	r := New(Options{Executor: executor(func(in process.Invocation) error {
		err := os.WriteFile(process.Variable(in.Vars, "RUN_RESULT_PATH"), []byte(`{"message": "source db does not answer"}`), 0o600)
		return errors.Join(err, &process.ExitError{Hook: "h", Status: "exit status 1", Stderr: "one\ntwo"})
	}), Workspace: openWorkspace(t), Log: slog.New(slog.DiscardHandler)})
	h := hookOf("--")
	r.Add([]*hook.Hook{h})
	err := r.Task(change(h, 0)).Run(t.Context())
	report := Report{Err: err}
	if err == nil || err.Error() != "h FAILED: source db does not answer" || report.Exit() != "exit status 1" {
		t.Errorf("got %v, %s", err, report.Exit())
	}
}

// oneAtATime fails if operations of two runs are in memory.
type oneAtATime struct {
	Effects
	t   *testing.T
	now *atomic.Int32
}

func (o oneAtATime) Apply(_ context.Context, _ *slog.Logger, _ *hook.Hook, out Outputs, _ *Turn, _ Identify) ([]Change, error) {
	if out.Patch != nil || out.Large == nil {
		o.t.Error("a large file of operations is in memory")
	}
	if o.now.Add(1) != 1 {
		o.t.Error("large files of two runs are in memory")
	}
	o.now.Add(-1)
	return nil, nil
}

// Large files of runs are read one run at a time, and one that is too large is not read.
func TestLargeFilesAreReadOneAtATime(t *testing.T) {
	size := int64(9 << 20)
	r := New(Options{Executor: executor(func(in process.Invocation) error {
		return os.Truncate(process.Variable(in.Vars, "KUBERNETES_PATCH_PATH"), size)
	}), Workspace: openWorkspace(t), Log: slog.New(slog.DiscardHandler), Effects: oneAtATime{t: t, now: &atomic.Int32{}}})
	h := hookOf("--")
	r.Add([]*hook.Hook{h})
	ended := make(chan error)
	for range 4 {
		go func() { ended <- r.Task(change(h, 0)).Run(t.Context()) }()
	}
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if len(r.large) != 0 {
		t.Error("the place is not free")
	}
	size = 33 << 20
	if err := r.Task(change(h, 0)).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "or set settings.maxFileBytes") {
		t.Errorf("a file that is too large: %v", err)
	}
	h.Settings.MaxFileBytes = 40 << 20
	if err := r.Task(change(h, 0)).Run(t.Context()); err != nil {
		t.Errorf("with a setting: %v", err)
	}
}

// Large answers to clients are in memory one at a time, beside a run with large files. A client that does not wait for that gets an error.
func TestLargeAnswersAreReadOneAtATime(t *testing.T) {
	var written func()
	var inMemory atomic.Int32
	r := New(Options{Executor: executor(func(in process.Invocation) error {
		defer written()
		return os.Truncate(process.Variable(in.Vars, "HTTP_RESPONSE_PATH"), 9<<20)
	}), Workspace: openWorkspace(t), Log: slog.New(slog.DiscardHandler), Effects: noEffects{}})
	h := hookOf("--")
	r.Add([]*hook.Hook{h})
	r.large <- struct{}{}
	answer := func(ctx context.Context) error {
		_, err := r.Answer(ctx, Review{Review: event.Review{Event: change(h, 0)}, Judge: func(_ Outputs, err error) (string, error) {
			if inMemory.Add(1) != 1 {
				t.Error("two large answers are in memory")
			}
			inMemory.Add(-1)
			return "", err
		}})
		return err
	}
	written = func() {}
	ended := make(chan error)
	for range 4 {
		go func() { ended <- answer(t.Context()) }()
	}
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	r.largeAnswer <- struct{}{} // of another run
	ctx, cancel := context.WithCancel(t.Context())
	written = cancel
	if err := answer(ctx); err == nil || !strings.Contains(err.Error(), "its output is not applied") {
		t.Errorf("without a turn: %v", err)
	}
}

// applied counts the calls of Apply.
type applied struct {
	Effects
	calls int
}

func (a *applied) Apply(context.Context, *slog.Logger, *hook.Hook, Outputs, *Turn, Identify) ([]Change, error) {
	a.calls++
	return nil, nil
}

// Effects are applied of runs that request some: not of a run that writes nothing, a result, or the answer that has been judged.
func TestRunsWithoutEffects(t *testing.T) {
	answers := map[string]event.Type{"ADMISSION_RESPONSE_PATH": event.Mutating, "CONVERSION_RESPONSE_PATH": event.Conversion,
		"HTTP_RESPONSE_PATH": event.HTTP, "": event.Change} // and a run of a queue
	effects, written := &applied{}, ""
	r := New(Options{Executor: executor(func(in process.Invocation) error {
		if written == "" {
			return nil
		}
		return os.WriteFile(process.Variable(in.Vars, written), []byte(`{"message": "x"}`), 0o600)
	}), Workspace: openWorkspace(t), Log: slog.New(slog.DiscardHandler), Effects: effects})
	h := &hook.Hook{Name: "h", Kubernetes: make([]hook.Kubernetes, 1), Mutating: make([]hook.Admission, 1),
		Conversions: make([]hook.Conversion, 1), HTTP: make([]hook.HTTP, 1)}
	r.Add([]*hook.Hook{h})
	for judged, of := range answers {
		ev := event.Event{Type: of, Hook: h}
		for _, written = range append(slices.Sorted(maps.Keys(answers)), "METRICS_PATH", "KUBERNETES_PATCH_PATH", "RUN_RESULT_PATH") {
			want, err := 1, error(nil)
			if effects.calls = 0; judged == "" {
				err = r.Task(ev).Run(t.Context())
			} else {
				_, err = r.Answer(t.Context(), Review{Review: event.Review{Event: ev}, Request: &event.Request{}})
			}
			if written == judged || written == "" || written == "RUN_RESULT_PATH" {
				want = 0
			}
			if err != nil || effects.calls != want {
				t.Errorf("%s, %q: applied %d times, %v", of, written, effects.calls, err)
			}
		}
	}
}
