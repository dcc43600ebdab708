package conversion

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// Review is one step of a conversion for a hook.
type Review struct {
	event.Review
	// Judge returns what comes of an answer (nil: the hook wrote none) or of the error of a run. An error means that the hook
	// has failed.
	Judge func(answer *effect.ConversionAnswer, err error) (response string, failure error)
}

// Runner runs a hook for a step.
type Runner interface {
	// Convert runs the hook outside all queues until ctx ends. It returns an answer that Judge accepts, and leaves it to the
	// caller to log failures, which the API server may repeat ten times a second.
	Convert(ctx context.Context, r Review) (*effect.ConversionAnswer, error)
}

// failure is why a conversion failed.
type failure struct {
	// message is for the user of the request.
	message string
	// cause is for the log only: it may contain what a hook printed.
	cause error
	// refused means that the hook refused to convert.
	refused bool
}

func (f *failure) Error() string {
	if f.cause == nil {
		return f.message
	}
	return f.message + ": " + f.cause.Error()
}

func (f *failure) Unwrap() error { return f.cause }

// conversion converts the objects of one review to the desired version.
type conversion struct {
	*Handler
	crd   string
	steps []step
	start time.Time
	w     http.ResponseWriter
	// review is empty until it is parsed.
	review *review
	// objects keep their order; a step replaces those that it converts. now is the last step that began. The run owns the objects until
	// its end, which may be later than the response.
	objects []object
	now     atomic.Pointer[step]
}

func (c *conversion) failed(why string) *failure {
	return &failure{message: fmt.Sprintf("Conversion %s to %s was not successful: %s", c.crd, httpserver.Text(c.review.Request.Desired), why)}
}

// run converts. It starts with the objects farthest from the desired version, which join others on the path, so that no
// step runs twice.
func (c *conversion) run(ctx context.Context) (none struct{}, err error) {
	for {
		next, indexes, err := c.next()
		if err != nil || len(indexes) == 0 {
			return none, err
		}
		c.now.Store(&next)
		if err := c.do(ctx, next, indexes); err != nil {
			return none, err
		}
	}
}

// next is the step to run now, and the indexes of the objects that it is for. It fails if no path leads to the desired version.
func (c *conversion) next() (next step, indexes []int, err error) {
	longest := 0
	for _, version := range c.versions() {
		way, ok := path(c.steps, version, c.review.Request.Desired)
		if !ok {
			return next, nil, c.failed(fmt.Sprintf("no hook converts %q to %q", httpserver.Text(version), httpserver.Text(c.review.Request.Desired)))
		}
		if len(way) > longest {
			longest, next = len(way), way[0]
		}
	}
	for i, o := range c.objects {
		if longest > 0 && o.version == next.from {
			indexes = append(indexes, i)
		}
	}
	return next, indexes, nil
}

// do runs one step.
func (c *conversion) do(ctx context.Context, s step, indexes []int) error {
	given := make([]object, len(indexes))
	for i, index := range indexes {
		given[i] = c.objects[index]
	}
	var converted []object // by the last answer that judge accepted
	judge := func(answer *effect.ConversionAnswer, err error) (string, error) {
		f := s.judge(c.review, answer, err)
		if f == nil {
			if converted, err = check(s, c.review.Request.Desired, given, answer.Objects); err == nil {
				return fmt.Sprintf("converted %d objects", len(converted)), nil
			}
			f = &failure{message: s.failed(c.review, err.Error())}
		}
		if f.refused {
			return "refused: " + f.message, nil
		}
		return "failed: " + f.message, f
	}
	answer, err := c.opts.Runner.Convert(ctx, Review{event.Review{
		Event: event.Event{Type: event.Conversion, Hook: s.hook, Index: s.index}, Step: s.declared, Body: c.review.forHook(given),
		Subject: fmt.Sprintf("%d objects of %s from %s to %s", len(given), c.crd, s.declared.From, s.declared.To),
	}, judge})
	if f := s.judge(c.review, answer, err); f != nil {
		return f
	}
	for i, index := range indexes {
		c.objects[index] = converted[i]
	}
	return nil
}

// judge returns why there are no converted objects, or nil. The objects themselves are for check.
func (s step) judge(r *review, answer *effect.ConversionAnswer, err error) *failure {
	known := (*failure)(nil)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, new(httpserver.Late)):
		return &failure{message: s.failed(r, "it took too long"), cause: err}
	case err != nil:
		return &failure{message: s.failed(r, "see the log of the operator"), cause: err}
	case answer == nil:
		return &failure{message: s.failed(r, "it wrote no answer to the file named by $CONVERSION_RESPONSE_PATH")}
	case answer.Failure != "":
		return &failure{message: answer.Failure, cause: errors.New("refused by " + s.String()), refused: true}
	}
	return nil
}

func (s step) failed(r *review, why string) string {
	return fmt.Sprintf("Hook failed to convert to %s: %s: %s", httpserver.Text(r.Request.Desired), s, why)
}

func (s step) String() string {
	return fmt.Sprintf("hook %q, binding %q, step from %s to %s", s.hook.Name, s.hook.Conversions[s.index].Name, s.declared.From,
		s.declared.To)
}

// versions returns the versions of the objects, each once, in order of appearance.
func (c *conversion) versions() []string {
	var list []string
	for _, o := range c.objects {
		if !slices.Contains(list, o.version) {
			list = append(list, o.version)
		}
	}
	return list
}
