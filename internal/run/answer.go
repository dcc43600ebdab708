package run

import (
	"context"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Review is a question of the API server that a hook answers.
type Review struct {
	// Event is of the type Validating, Mutating or Conversion.
	Event event.Event
	// Body is the review as JSON text.
	Body []byte
	// Step is what a Conversion asks for.
	Step hook.ConversionStep
}

// Answer runs the hook for a review at once, outside all queues: nothing is merged with it and nothing is tried again.
// It returns what the hook wrote once that has been carried out. When ctx ends the run is ended too.
func (r *Runner) Answer(ctx context.Context, review Review) (Outputs, error) {
	t := r.Task(review.Event)
	t.review = &review
	if err := t.Ready(ctx); err != nil {
		return Outputs{}, err
	}
	if err := t.Run(ctx); err != nil {
		r.opts.Log.Error("Hook failed", append(t.LogFields(), "error", err.Error())...)
		return Outputs{}, err
	}
	return t.outputs, nil
}
