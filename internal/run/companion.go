package run

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// A Companion takes part in the runs of hooks that ask for it: as a Waiter, Beginner, Settler, Finisher, or as several of them. A panic of
// Begin, Settle or Done is a failure of the run, and the other companions are called nevertheless.
type Companion interface {
	// Joins reports whether the companion takes part in the runs of a hook: those for queues, or those that answer requests.
	Joins(h *hook.Hook, answers bool) bool
}

// Waiter is a Companion whose Await returns the reason why a run for a queue has to wait, as queue.Blocked; nil if it may begin.
type Waiter interface{ Await(t *Task) error }

// Beginner is a Companion whose Begin is called before the contexts are made, and for a task without events, which starts no process.
type Beginner interface {
	Begin(ctx context.Context, a *Attempt) context.Context
}

// Settler is a Companion whose Settle is called after the effects, while the files of the run exist. An error fails the run.
type Settler interface {
	Settle(ctx context.Context, a *Attempt, outcome error) error
}

// Finisher is a Companion whose Done is called with the final outcome.
type Finisher interface {
	Done(ctx context.Context, a *Attempt, outcome error)
}

// Marker is a Companion that marks each event, until the run that delivers it. Tasks keep the marks of their first events.
type Marker interface {
	Companion
	Mark(t *Task, ev event.Event) any
}

// Forgetter is a Companion that keeps something of a hook by its name, until the last version of the hook has gone.
type Forgetter interface {
	Companion
	Forget(hook string)
}

// Deferred keeps events that hooks get again. Package pending implements it: parking and requeues act also without a run.
type Deferred interface {
	// Refresh makes a requeue, or a retried event, current at the start of an attempt. False: it has left its task.
	Refresh(ev *event.Event) bool
	// Full reports that too much waits: a Modified event then takes the place of one of its object. It must be quick.
	Full() bool
	// Replaced is called for a waiting event that has left its task, because a later one takes its place.
	Replaced(ev *event.Event)
	// Left is called for a task whose events do not wait any longer. Processed: a hook has done so, or nothing is left of it.
	Left(t *Task, processed bool)
	// Park keeps the contexts of a task that has failed with err so often that no attempt is left.
	Park(t *Task, queue, key string, attempts int, err error)
}

type nothingDeferred struct{}

func (nothingDeferred) Refresh(*event.Event) bool              { return true }
func (nothingDeferred) Full() bool                             { return false }
func (nothingDeferred) Replaced(*event.Event)                  {}
func (nothingDeferred) Left(*Task, bool)                       {}
func (nothingDeferred) Park(*Task, string, string, int, error) {}

// joining returns the companions of the runs of a hook, in order.
func (r *Runner) joining(h *hook.Hook, answers bool) (list []Companion) {
	for _, c := range r.opts.Companions {
		if c.Joins(h, answers) {
			list = append(list, c)
		}
	}
	return list
}

// each calls the companions of an attempt that are of one type, also after one has failed or panicked, and returns the outcome with their
// failures.
func each[C any](a *Attempt, outcome error, call func(c C, outcome error) error) error {
	for _, one := range a.companions {
		if c, is := one.(C); is {
			if failure := a.guard(func() error { return call(c, outcome) }); failure != nil {
				outcome = withFailure(outcome, failure)
			}
		}
	}
	return outcome
}

// withFailure adds the failure of a companion to an outcome. The requests of the hook stay.
func withFailure(outcome, failure error) error {
	var decided *decidedError
	switch {
	case outcome == nil:
		return failure
	case errors.As(outcome, &decided):
		return &decidedError{errors.Join(decided.error, failure), decided.Result}
	}
	return errors.Join(outcome, failure)
}

// guard turns a panic of a call into a failure of the attempt. Nothing else recovers for runs.
func (a *Attempt) guard(call func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			a.Log.Warn("panic recovered in TaskQueue Start", "task_id", a.Task.ID(), "task_type", a.Task.String(),
				"error", fmt.Sprint(reason), "stack", string(debug.Stack()))
			err = fmt.Errorf("%s FAILED: the operator panicked, which is a bug in it: the log has the stack", a.Hook.Name)
		}
	}()
	return call()
}
