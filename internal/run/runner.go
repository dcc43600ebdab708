// Package run delivers events to hooks: it makes the tasks that queues order, and runs them.
//
// Callers may rely on this:
//   - A run gets snapshots taken at its start, each taken once and equal in all its contexts.
//   - The output of a failed run is not applied, except patches with ignoreHookError. Its events stay in the task for
//     the next attempt.
//   - A binding is unlocked once its Synchronization run has succeeded, was allowed to fail, or has no attempt left.
//   - A hook can be removed during a run: the run completes and is not retried, and no other run starts.
//   - A panic during a run is a failure of that run. Its companions are called nevertheless, and its files, places and turns released.
//   - Operations of one hook on one object are sent in the order in which the processes of its runs ended.
//   - Companions settle a run before its outcome is final, and may fail it. A binding is unlocked, and a lane left, after all are done.
//   - A run acknowledges the events that it has delivered, not those that it leaves to the next run.
//   - The files of a run are private to the operator's user, and are deleted at its end.
//
// It starts processes through an Executor, and applies outputs through Effects only.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// Executor runs a hook file once. It returns an error if the hook fails.
type Executor interface {
	Execute(ctx context.Context, in process.Invocation) (process.Result, error)
}

// Workers are the processes that an Executor keeps to serve runs.
type Workers interface {
	// Keep names all hooks that have workers, by what starts these. Others end when they serve no run.
	Keep(all []process.Invocation)
}

// Snapshots have the objects of kubernetes bindings, with the guarantees of package watch.
type Snapshots interface {
	Snapshot(h *hook.Hook, index int) event.Snapshot
	Synchronize(h *hook.Hook, index int) event.Snapshot
	Unlock(h *hook.Hook, index int)
}

// Effects apply the output of hooks.
type Effects interface {
	// Apply checks all of out before it applies any of it, and returns the changes that it tried. The log has the run's fields. It
	// waits for the turn before the first change.
	Apply(ctx context.Context, log *slog.Logger, h *hook.Hook, out Outputs, turn *Turn, identify Identify) ([]Change, error)
	// Check checks out as Apply does, and applies nothing.
	Check(h *hook.Hook, out Outputs) error
	// ApplyFailed applies the patches with ignoreHookError of a failed hook.
	ApplyFailed(ctx context.Context, log *slog.Logger, h *hook.Hook, out Outputs, turn *Turn, identify Identify) ([]Change, error)
}

// Options of a Runner. Executor, Snapshots, Effects, Workspace and Log are required.
type Options struct {
	Executor  Executor
	Snapshots Snapshots
	Effects   Effects
	Workspace *workspace.Workspace
	Log       *slog.Logger
	// Env, if set, returns the environment of the runs of a hook, without the variables of their files.
	Env func(h *hook.Hook) []string
	// Timeout limits runs of hooks without executionTimeout; 0 means no limit.
	Timeout time.Duration
	// Retry bounds the delays of policies that leave them out.
	Retry Retry
	// MaxContextBytes is about the largest size of a context file with more than one context; 0 means no limit.
	MaxContextBytes int
	// Deferred, if set, keeps events that hooks get again.
	Deferred Deferred
	// ProxyJSON logs the JSON objects that hooks print as records of their own.
	ProxyJSON bool
	// Files, if set, are those that hooks run from. By default hooks run from their own paths.
	Files Files
	// Workers, if set, keeps the workers of hooks with settings.worker; the Executor runs such hooks by them.
	Workers Workers
	// Companions take part in runs, in this order.
	Companions []Companion
}

// Retry is the shortest and the longest delay before the next attempt.
type Retry struct{ Min, Max time.Duration }

// Awaiter is a Snapshots that may not have the objects of a binding yet. Await returns when a request may get them.
type Awaiter interface {
	Await(ctx context.Context, h *hook.Hook, index int)
}

// WholeEffects are Effects that compare requests: they get also large files of operations in memory, and runs that request nothing.
type WholeEffects interface {
	Effects
	ReadWhole()
}

// Runner runs hooks.
type Runner struct {
	opts    Options
	lastID  atomic.Int64
	lastRun atomic.Uint64
	hooks   hooks
	turns   turns
	// marker is the one of the companions; nil without one.
	marker Marker
	// processes can be ended by Stop.
	processes processes
	// large has a place for the run whose large files are in memory, from reading them until they are applied and recorded. Runs that answer
	// clients have a place of their own, largeAnswer: an application takes longer than a client waits.
	large, largeAnswer chan struct{}
}

// New returns a Runner without hooks.
func New(opts Options) *Runner {
	if opts.Files == nil {
		opts.Files = ownPaths{}
	}
	if opts.Deferred == nil {
		opts.Deferred = nothingDeferred{}
	}
	r := &Runner{opts: opts, hooks: hooks{known: map[*hook.Hook]*hookState{}}, processes: processes{of: map[string]running{}},
		large: make(chan struct{}, 1), largeAnswer: make(chan struct{}, 1)}
	for _, c := range opts.Companions {
		if m, ok := c.(Marker); ok {
			r.marker = m
		}
	}
	return r
}

func (r *Runner) wait(ctx context.Context, h *hook.Hook) error {
	if limit := r.hooks.limit(h); limit != nil {
		return limit.Wait(ctx)
	}
	return ctx.Err()
}

// run is one attempt of a task.
func (r *Runner) run(ctx context.Context, t *Task) error {
	ctx, a, err := r.begin(ctx, t)
	if err == nil && t.events.Len() > 0 {
		err = a.guard(func() error { return r.attempt(ctx, a) })
	}
	if err != nil {
		err = t.late(ctx, err)
	}
	err = each(a, err, func(c Settler, outcome error) error { return c.Settle(ctx, a, outcome) })
	r.release(a)
	return r.end(ctx, a, err)
}

// Attempt is one run of a task, and its results.
type Attempt struct {
	Report
	Task *Task
	// Log has the fields of the run.
	Log *slog.Logger
	// Record receives the output of the hook.
	Record Record
	// OwnWrites is the part of Waited for changes by earlier runs. Lacking names one that a snapshot lacks nevertheless, if any.
	OwnWrites time.Duration
	Lacking   string
	// companions take part in the attempt.
	companions []Companion
	started    time.Time
	// Previous, if set, returns a function for one pass over the events, in order: the version that the hook has processed before an event.
	Previous func() func(ev event.Event) *event.Object
	// Vars are variables of the hook that companions add.
	Vars []string
	// Files are the run's files, from their creation until it is settled.
	Files *workspace.Files
	// Lists are the initial lists in the contexts.
	Lists []event.Snapshot
	// Outputs are the files that the hook wrote. Unread reports that they are not known completely, HookFailed that the process failed,
	// SecretCalls that the hook may have called kubectl on Secrets.
	Outputs                         Outputs
	Unread, HookFailed, SecretCalls bool
	// large is Runner.large or largeAnswer, if the run has its place.
	large chan struct{}
}

// release frees what an attempt holds until it is settled.
func (r *Runner) release(a *Attempt) {
	if a.large != nil {
		<-a.large
		a.large = nil
	}
	if a.Files == nil {
		return
	}
	if err := r.opts.Workspace.Delete(a.Files); err != nil {
		a.Log.Warn("Cannot remove the files of the run", "error", err.Error())
	}
	a.Files = nil
}

// attempt runs the process with the task's contexts, and hands its outputs to the effects.
func (r *Runner) attempt(ctx context.Context, a *Attempt) (err error) {
	t := a.Task
	f, err := r.opts.Workspace.Create(t.Hook().Name, t.RunID())
	if err != nil {
		return fmt.Errorf("%w: is the directory of --tmp-dir or --run-dir full or not writable?", err)
	}
	a.Files = f
	frames := r.frames(t)
	if err = r.writeContexts(a, frames); err != nil {
		r.release(a) // there is nothing to record
		return fmt.Errorf("%w: is the directory of --tmp-dir or --run-dir full or not writable?", err)
	}
	a.Lists = initialLists(frames)
	return r.perform(ctx, a)
}

// perform runs the process and applies its outputs.
func (r *Runner) perform(ctx context.Context, a *Attempt) error {
	err := r.process(ctx, a)
	review := a.Task.readExtra().review
	if a.Files.Large() { // before the turn: a run with a turn never waits for one that waits for a turn
		if late := r.enterLarge(ctx, a); late != nil {
			return cmp.Or(err, late)
		}
	}
	var turn *Turn // a client waits for the run of a review, so that has no turn
	if review == nil {
		turn = r.turns.take(a.Hook)
		defer turn.end()
	}
	_, whole := r.opts.Effects.(WholeEffects)
	out, outErr := a.Files.Outputs(int64(a.Hook.Settings.MaxFileBytes), !whole)
	a.Outputs, a.Unread = out, outErr != nil
	var invalid error
	if out.Result != nil {
		a.Result, invalid = a.Task.result(out.Result, a.Lists, err != nil)
	}
	if err != nil {
		a.InvalidResult = invalid
		return r.applyFailed(ctx, a, turn, err)
	}
	switch err := errors.Join(outErr, invalid); {
	case err != nil:
		return fmt.Errorf("%s FAILED: %w", a.Hook.Name, err)
	case ctx.Err() != nil: // the client has disconnected, or another replica is the leader
		return a.unapplied(ctx)
	case review != nil:
		if err := a.answer(review, &out); err != nil || review.NoEffects {
			return cmp.Or(err, r.check(a, out))
		}
	}
	if out.Empty() && !whole {
		return nil
	}
	a.Changes, err = r.opts.Effects.Apply(ctx, a.Log, a.Hook, out, turn, a.Task.identify(a.Lists))
	return err
}

// process runs the process.
func (r *Runner) process(ctx context.Context, a *Attempt) error {
	result, err := r.execute(ctx, a, a.Files)
	a.Record.Processed()
	a.Usage, a.Served, a.HookFailed = result.Usage, result.Served, err != nil
	if calls := a.Files.Calls(); len(calls) > 0 {
		a.Kubectl, a.SecretCalls = kubectl.ParseCalls(calls), kubectl.OnSecrets(calls, workspace.MaxCalls)
	}
	if exit, failed := errors.AsType[*process.ExitError](err); failed {
		exit.Known = process.ParseFailure(a.Files.Failure())
	}
	return err
}

// enterLarge takes the place for a run whose large files are in memory.
func (r *Runner) enterLarge(ctx context.Context, a *Attempt) error {
	place := r.large
	if a.Task.Answers() {
		place = r.largeAnswer
	}
	select {
	case place <- struct{}{}:
		a.large = place
		return nil
	case <-ctx.Done():
		return a.unapplied(ctx)
	}
}

func (a *Attempt) unapplied(ctx context.Context) error {
	return fmt.Errorf("%s FAILED: its output is not applied: %w", a.Hook.Name, context.Cause(ctx))
}

// applyFailed applies those operations of a failed hook that ignore its failure, and completes the failure by what the hook has requested.
func (r *Runner) applyFailed(ctx context.Context, a *Attempt, turn *Turn, err error) error {
	if a.InvalidResult != nil {
		a.Log.Warn("The result file of a failed hook is ignored", "error", a.InvalidResult.Error())
	}
	review, out := a.Task.readExtra().review, a.Outputs
	if !a.Unread && (out.Patch != nil || out.Large != nil) && ctx.Err() == nil && (review == nil || !review.NoEffects) {
		var failed error
		a.Changes, failed = r.opts.Effects.ApplyFailed(ctx, a.Log, a.Hook, out, turn, a.Task.identify(a.Lists))
		err = errors.Join(err, failed)
	}
	if a.Result.Message != "" {
		err = &messageError{err, a.Hook.Name, process.Printable(strings.TrimSpace(a.Result.Message))}
	}
	if a.Result.GiveUp != "" || a.Result.RetryAfter != nil {
		err = &decidedError{err, a.Result}
	}
	return err
}

// answer judges the answer that the hook wrote for a request, and takes it out of the outcome that is applied. The caller reads only the
// answers: the rest may be large.
func (a *Attempt) answer(review *answered, left *Outputs) (err error) {
	review.outputs = Outputs{Admission: left.Admission, Conversion: left.Conversion, HTTP: left.HTTP}
	switch review.Type {
	case event.Conversion:
		left.Conversion = nil
	case event.HTTP:
		left.HTTP = nil
	default:
		left.Admission = nil
	}
	if a.Response, err = review.judge(review.outputs, nil); err != nil {
		return &requestError{err, "exit status 0, but no valid answer", "it gave no valid answer; the log of the operator says why"}
	}
	return nil
}

// maxLogged bounds the logged output of a run by default: an endless loop that prints makes 10 MB of log in 2 s.
const maxLogged = 1 << 20

func (r *Runner) execute(ctx context.Context, a *Attempt, f *workspace.Files) (process.Result, error) {
	t, log := a.Task, a.Log
	stdout := process.NewLineLogger(log, "stdout", r.opts.ProxyJSON)
	stderr := process.NewLineLogger(log, "stderr", r.opts.ProxyJSON)
	defer stdout.Close()
	defer stderr.Close()
	path, set, release := r.opts.Files.Take(t.Hook())
	defer release()
	in := r.invocation(withPath(path, t.Hook()), f)
	in.Stdout = func(line []byte) { a.Record.Output(line); stdout.Line(line) }
	in.Stderr = func(line []byte) { a.Record.Output(line); stderr.Line(line) }
	m := t.readExtra()
	in.Vars = append(append(in.Vars, attemptVariables(m.last.attempts, t.limit(), cmp.Or(m.keyValue, m.last.key))...), a.Vars...)
	if m.review == nil {
		stoppable, leave := r.processes.enter(ctx, t)
		ctx = stoppable
		defer leave()
	}
	in.Started = a.Record.Started
	if r.opts.Workers != nil && t.Hook().Settings.Worker != nil {
		in.Worker = r.worker(t.Hook(), set, t.RunID(), f)
		in.Worker.Client = m.review != nil
	}
	in.Output = int64(cmp.Or(t.Hook().Settings.MaxLogBytes, maxLogged))
	in.Dropped = func() {
		log.Warn("The hook has printed more than is logged of a run, the rest is dropped", "limit", in.Output, "hint",
			"print less, or set settings.maxLogBytes")
	}
	result, err := r.opts.Executor.Execute(ctx, in)
	if result.HeldOpen {
		log.Warn("The hook has ended, but a process that it left behind kept its output open; what that prints is not logged: redirect the " +
			"output of background processes")
	}
	return result, err
}

// withPath returns the hook with another path of its file.
func withPath(path string, h *hook.Hook) *hook.Hook {
	if path == h.Path {
		return h
	}
	moved := *h
	moved.Path = path
	return &moved
}
