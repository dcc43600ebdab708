package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// messageError is a failure that the message of the hook describes.
type messageError struct {
	error
	hook, message string
}

func (m *messageError) Error() string {
	if exit, failed := errors.AsType[*process.ExitError](m.error); failed {
		return m.hook + " FAILED: " + exit.Cause(m.message)
	}
	return m.hook + " FAILED: " + m.message
}
func (m *messageError) Unwrap() error { return m.error }

// causedError is the failure of an attempt with its cause.
type causedError struct {
	error
	cause string
}

func (c *causedError) Unwrap() error { return c.error }
func (c *causedError) Cause() string { return c.cause }

// decidedError is a failure with what the hook has requested for the next attempt.
type decidedError struct {
	error
	effect.Result
}

func (d *decidedError) Unwrap() error { return d.error }
func (d *decidedError) GiveUp() bool  { return d.Result.GiveUp != "" }

// Cause returns the line about a failure that people read. It may quote what the hook printed.
func Cause(err error) string {
	if c, ok := errors.AsType[*causedError](err); ok {
		return c.cause
	}
	return process.Line(err.Error(), "")
}

// GaveUp returns the reason why a hook has requested no other attempt after a failure; it is empty if the hook has not.
func GaveUp(err error) string {
	var d *decidedError
	if !errors.As(err, &d) {
		return ""
	}
	return d.Result.GiveUp
}

func (d *decidedError) Error() string {
	if d.Result.GiveUp == "" {
		return d.error.Error()
	}
	return fmt.Sprintf("%s: the hook gave up: %s", d.error, d.Result.GiveUp)
}

// RetryAfter is the delay that the hook has requested.
func (d *decidedError) RetryAfter() (delay time.Duration, ok bool) {
	if d.Result.RetryAfter == nil {
		return 0, false
	}
	return d.Result.RetryAfter.Duration, true
}

// end ends an attempt that failed with err, or succeeded: what its task has waited for is done, unless the task is retried.
func (r *Runner) end(ctx context.Context, a *Attempt, err error) error {
	t := a.Task
	if review := t.readExtra().review; review != nil && err != nil {
		a.Response, _ = review.judge(Outputs{}, err)
	}
	if err != nil {
		a.Cause = process.Line(strings.TrimPrefix(err.Error(), t.Hook().Name+" FAILED: "), "")
		err = &causedError{err, a.Cause}
	}
	a.Wall, a.Err, a.Allowed, a.Interrupted = time.Since(a.started), err, t.mayFail(), err != nil && Interrupted(ctx)
	err = each(a, err, func(c Finisher, outcome error) error { c.Done(ctx, a, outcome); return nil })
	switch {
	case a.Stays(ctx, err):
		return err
	case err != nil:
		a.Log.Info("Hook failed, but allowed to fail", "error", err.Error())
	case t.events.Len() > 0:
		a.Log.Info("Hook executed successfully")
	}
	t.leave(err == nil)
	return nil
}

// Stays reports whether the task of an attempt with this outcome stays in its queue.
func (a *Attempt) Stays(ctx context.Context, outcome error) bool {
	return outcome != nil && (ctx.Err() != nil || !a.Allowed)
}

// leave is called when the queue is done with the task: its bindings are unlocked, and its objects may get another lane.
func (t *Task) leave(processed bool) {
	if m := t.readExtra(); len(m.unlocks) > 0 {
		t.runner.opts.Log.Info("Unlock kubernetes.Event tasks", t.LogFields()...)
		t.unlock()
	}
	t.runner.opts.Deferred.Left(t, processed)
}

// unlock unlocks the bindings of the task.
func (t *Task) unlock() {
	for _, index := range t.readExtra().unlocks {
		t.runner.opts.Snapshots.Unlock(t.Hook(), index)
	}
}

// Forget lets the objects of the task get another lane. It is called for a task that is dropped with its hook.
func (t *Task) Forget() { t.runner.opts.Deferred.Left(t, true) }

// Skip ends a task without a run, as if it had been allowed to fail.
func (t *Task) Skip() { t.leave(false) }

// Exhaust ends a task that has no attempt left: its contexts are parked or, as its policy demands, dropped.
func (t *Task) Exhaust(queue, key string, attempts int, err error) (parked bool) {
	if t.Policy().Exhausted == hook.Drop {
		t.leave(false)
		return false
	}
	t.runner.opts.Deferred.Park(t, queue, key, attempts, err)
	t.unlock()
	return true
}
