package conversion

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Runner runs one step of a conversion: review is the whole review as JSON, whose request.objects are those to convert.
// The answer is nil when the hook wrote none.
type Runner interface {
	Convert(ctx context.Context, h *hook.Hook, index int, step hook.ConversionStep, review []byte) (*effect.ConversionAnswer, error)
}

// failure is why a conversion failed.
type failure struct {
	// message is for whoever asked the API server for the object.
	message string
	// cause is for the log only: it may be what a hook printed.
	cause error
}

func (f *failure) Error() string {
	if f.cause == nil {
		return f.message
	}
	return f.message + ": " + f.cause.Error()
}

func (f *failure) Unwrap() error { return f.cause }

// conversion brings the objects of one review to the desired version.
type conversion struct {
	crd    string
	steps  []step
	review *review
	// objects keep their places; each is replaced by what a step made of it.
	objects []object
}

// check tells whether there is anything to do, and fails when there is no way to do it.
func (c *conversion) check() (todo bool, err error) {
	for _, version := range c.versions() {
		way, ok := path(c.steps, version, c.review.Request.Desired)
		if !ok {
			return false, c.failed(fmt.Sprintf("no hook converts %q to %q", version, c.review.Request.Desired))
		}
		todo = todo || len(way) > 0
	}
	return todo, nil
}

func (c *conversion) failed(why string) *failure {
	return &failure{message: fmt.Sprintf("Conversion %s to %s was not successful: %s", c.crd, c.review.Request.Desired, why)}
}

// run converts. Objects that are farthest from the desired version go first and join those that they meet on their
// way, so that no step runs twice.
func (c *conversion) run(ctx context.Context, runner Runner) error {
	for {
		next, places := c.next()
		if len(places) == 0 {
			return nil
		}
		if err := c.do(ctx, runner, next, places); err != nil {
			return err
		}
	}
}

// next is the step to run now, and the places of the objects that it is for.
func (c *conversion) next() (next step, places []int) {
	longest := 0
	for _, version := range c.versions() {
		if way, _ := path(c.steps, version, c.review.Request.Desired); len(way) > longest {
			longest, next = len(way), way[0]
		}
	}
	for i, o := range c.objects {
		if longest > 0 && o.version == next.from {
			places = append(places, i)
		}
	}
	return next, places
}

// do runs one step.
func (c *conversion) do(ctx context.Context, runner Runner, s step, places []int) error {
	given := make([]object, len(places))
	for i, place := range places {
		given[i] = c.objects[place]
	}
	answer, err := runner.Convert(ctx, s.hook, s.index, s.declared, c.review.forHook(given))
	switch {
	case err != nil && ctx.Err() != nil:
		return &failure{message: s.failed(c.review, timeLimit(ctx)), cause: err}
	case err != nil:
		return &failure{message: s.failed(c.review, "the operator's log has its error"), cause: err}
	case answer == nil:
		return &failure{message: s.failed(c.review, "it wrote no answer to the file that $CONVERSION_RESPONSE_PATH names")}
	case answer.Failure != "":
		return &failure{message: answer.Failure, cause: errors.New(s.String() + " says so")}
	}
	made, err := check(s, c.review.Request.Desired, given, answer.Objects)
	if err != nil {
		return &failure{message: s.failed(c.review, err.Error())}
	}
	for i, place := range places {
		c.objects[place] = made[i]
	}
	return nil
}

func (s step) failed(r *review, why string) string {
	return fmt.Sprintf("Hook failed to convert to %s: %s: %s", r.Request.Desired, s, why)
}

func (s step) String() string {
	return fmt.Sprintf("hook %q, binding %q, step from %s to %s", s.hook.Name, s.hook.Conversions[s.index].Name, s.declared.From, s.declared.To)
}

func timeLimit(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return "it took too long"
	}
	return "the API server hung up"
}

// versions are those of the objects, each once, in order of appearance.
func (c *conversion) versions() []string {
	var list []string
	for _, o := range c.objects {
		if !slices.Contains(list, o.version) {
			list = append(list, o.version)
		}
	}
	return list
}
