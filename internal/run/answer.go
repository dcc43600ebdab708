package run

import (
	"context"
	"errors"

	"github.com/shell-operator/shell-operator/internal/event"
)

// Review is a request that a hook answers.
type Review struct {
	event.Review
	// Request is the HTTP request, if the review is one.
	Request *event.Request
	// Judge turns what the hook wrote, or the error of its run, into the response that the client gets. An error fails the
	// run before anything that the hook asked for is carried out; Judge may be called again with it. Nil accepts everything.
	Judge func(out Outputs, err error) (response string, failure error)
	// Quiet leaves the log record of a failure to the caller.
	Quiet bool
}

func (r *Review) judge(out Outputs, err error) (string, error) {
	if r.Judge == nil {
		return "", err
	}
	return r.Judge(out, err)
}

// requestError is a failure of a run for a request that is not the end of its process; exit and reason describe it, as ending does.
type requestError struct {
	error
	exit, reason string
}

func (e *requestError) Unwrap() error { return e.error }

// answered is a Review and what the hook wrote.
type answered struct {
	Review
	outputs Outputs
}

// ErrRate is the error of a run that the hook's rate limit does not allow before the request's deadline.
var ErrRate = errors.New("the hook's rate limit does not allow a run in time: raise settings.executionBurst or lower " +
	"settings.executionMinInterval")

// Answer runs the hook for a review immediately, outside all queues, without merging and without retries. It returns what
// the hook wrote once that has been carried out. The run ends with ctx; a deadline of ctx that passes fails the run with
// the cause of ctx. Answer logs failures of reviews that are not Quiet.
func (r *Runner) Answer(ctx context.Context, review Review) (Outputs, error) {
	t, a := r.Task(review.Event), &answered{Review: review}
	t.ensureExtra().review = a
	err := r.wait(ctx, t.Hook())
	if err != nil && ctx.Err() == nil {
		err = ErrRate
	}
	// A conversion does not wait: a watch may need it.
	if snapshots, may := r.opts.Snapshots.(Awaiter); may && err == nil && review.Type != event.Conversion {
		for _, index := range review.Binding().Includes {
			snapshots.Await(ctx, t.Hook(), index)
		}
	}
	if err == nil {
		err = t.Run(ctx)
	}
	if err != nil {
		switch {
		case Interrupted(ctx):
			r.opts.Log.Info("Hook interrupted", t.LogFields()...)
		case !review.Quiet:
			r.opts.Log.Error("Hook failed", append(t.LogFields(), "error", err.Error())...)
		}
		return Outputs{}, err
	}
	return a.outputs, nil
}

// Interrupted reports whether ctx was cancelled: by a shutdown, or by a client that has disconnected. A deadline that has
// passed is a failure of the hook instead.
func Interrupted(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// late returns the error of a request whose deadline has passed, instead of the signal that ended the process.
func (t *Task) late(ctx context.Context, err error) error {
	if t.readExtra().review != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &requestError{context.Cause(ctx), "no answer in time", "it gave no answer in time"}
	}
	return err
}

// check checks the outputs of a review without effects, so that a dry run gets the verdict that the request itself would get.
func (r *Runner) check(a *Attempt, out Outputs) error {
	if out.Patch == nil && out.Large == nil && out.Metrics == nil {
		return nil
	}
	a.Log.Info("The operations and metrics of a review are not applied: it is a dry run")
	return r.opts.Effects.Check(a.Task.Hook(), out)
}
