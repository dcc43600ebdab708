package run

import (
	"context"
	"errors"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Review is a question that a hook answers.
type Review struct {
	// Event is of the type Validating, Mutating, Conversion or HTTP.
	Event event.Event
	// Body is the review of the API server as JSON text.
	Body []byte
	// Step is what a Conversion asks for.
	Step hook.ConversionStep
	// Request is that of HTTP.
	Request *event.Request
}

// answered is a Review, and what the hook wrote.
type answered struct {
	Review
	outputs Outputs
}

// ErrRate tells that a hook's rate limit does not let it run before its time is over.
var ErrRate = errors.New("the hook's rate limit does not allow a run in time: raise settings.executionBurst or lower settings.executionMinInterval")

// Answer runs the hook for a review at once, outside all queues: nothing is merged with it and nothing is tried again.
// It returns what the hook wrote once that has been carried out. When ctx ends the run is ended too.
func (r *Runner) Answer(ctx context.Context, review Review) (Outputs, error) {
	t, a := r.Task(review.Event), &answered{Review: review}
	t.rest().review = a
	if err := t.Ready(ctx); err != nil {
		if ctx.Err() == nil {
			err = ErrRate
		}
		return Outputs{}, err
	}
	if err := t.Run(ctx); err != nil {
		r.opts.Log.Error("Hook failed", append(t.LogFields(), "error", err.Error())...)
		return Outputs{}, err
	}
	return a.outputs, nil
}
