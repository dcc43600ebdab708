package simulate

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"os"
	"slices"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// simulatedExecutor observes the process of a run.
type simulatedExecutor struct {
	*simulation
	run.Executor
}

func (e simulatedExecutor) Execute(ctx context.Context, in process.Invocation) (process.Result, error) {
	s := e.simulation
	if s.result.exhausted != nil {
		s.result.Failed, s.result.exhausted = s.result.exhausted, nil
	}
	s.result.Runs++
	if s.Started != nil {
		if contexts, err := os.ReadFile(process.Variable(in.Vars, "BINDING_CONTEXT_PATH")); err == nil {
			s.Started(contexts)
		}
	}
	in.Stdout, in.Stderr = s.lines("stdout", &s.result.Stdout), s.lines("stderr", &s.result.Stderr)
	result, err := e.Executor.Execute(ctx, in)
	if result.HeldOpen {
		s.result.Notes = append(s.result.Notes,
			"the hook has ended, but a process that it left behind kept its output open: redirect the output of background processes")
	}
	return result, err
}

func (s *simulation) lines(stream string, into *[]string) func([]byte) {
	return func(line []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		*into = append(*into, string(line))
		if s.Line != nil {
			s.Line(stream, string(line))
		}
	}
}

// simulatedFinalizers remove finalizers. The deletion of an object that has none left is an event.
type simulatedFinalizers struct{ *simulation }

func (f simulatedFinalizers) Release(ctx context.Context, events iter.Seq[event.Event]) {
	f.listening = true
	defer func() { f.listening = false }()
	f.gates.Release(ctx, events)
	if err := f.refresh(ctx); err != nil && ctx.Err() == nil {
		f.result.Notes = append(f.result.Notes, "the finalizers: "+err.Error())
	}
}

func (f simulatedFinalizers) Keep(ev event.Event) (kept, again bool) { return f.gates.Keep(ev) }

// simulatedEffects apply what runs return to the simulated cluster.
type simulatedEffects struct{ *simulation }

func (e simulatedEffects) Apply(ctx context.Context, log *slog.Logger, h *hook.Hook, out run.Outputs, turn *run.Turn,
	identify run.Identify) ([]run.Change, error) {
	requests, err := apply.Check(h, out, e.Filters)
	if err != nil {
		return nil, err
	}
	e.learnPatches(requests.Patches)
	for _, w := range requests.Warnings {
		e.warn("the metrics: %s", w)
	}
	var changes []run.Change
	seen := len(e.result.seen)
	if !e.CheckOnly {
		changes, err = e.effects.Apply(ctx, log, h, out, turn, identify)
		e.effects.Flush(ctx)
	}
	err = errors.Join(err, e.refresh(ctx))
	e.escalate(e.result.seen[seen:], requests.Patches)
	if err == nil {
		e.keepSets(requests.Patches)
		e.result.Patches = append(e.result.Patches, requests.Patches...)
		e.result.Metrics = append(e.result.Metrics, requests.Metrics...)
	}
	return changes, err
}

// ReadWhole implements run.WholeEffects.
func (simulatedEffects) ReadWhole() {}

func (e simulatedEffects) Check(h *hook.Hook, out run.Outputs) error { return e.effects.Check(h, out) }

func (e simulatedEffects) ApplyFailed(ctx context.Context, log *slog.Logger, h *hook.Hook, out run.Outputs, turn *run.Turn,
	identify run.Identify) ([]run.Change, error) {
	if patches, err := wire.ParsePatches(out.Patch, e.Filters); err == nil {
		e.learnPatches(patches)
		e.result.Despite = slices.DeleteFunc(patches, func(p effect.Patch) bool { return !p.IgnoreHookError })
	}
	if e.CheckOnly {
		return nil, nil
	}
	changes, err := e.effects.ApplyFailed(ctx, log, h, out, turn, identify)
	return changes, errors.Join(err, e.refresh(ctx))
}
