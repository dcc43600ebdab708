package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	httphooks "github.com/shell-operator/shell-operator/internal/source/http"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Responder runs hooks for requests that wait, admission and conversion reviews and HTTP requests, and parses their answers. It is the
// runner of the handlers below package source.
type Responder struct{ *run.Runner }

var (
	_ admission.Runner  = Responder{}
	_ conversion.Runner = Responder{}
	_ httphooks.Runner  = Responder{}
)

func (a Responder) Admit(ctx context.Context, r admission.Review) (answer *effect.AdmissionAnswer, err error) {
	kind := "validating"
	if r.Type == event.Mutating {
		kind = "mutating"
	}
	_, err = a.Runner.Answer(ctx, run.Review{
		Review: r.Review,
		Judge: func(out run.Outputs, err error) (string, error) {
			if err == nil {
				answer, err = parseAnswer(kind, out.Admission, wire.ParseAdmission)
			}
			return r.Judge(answer, err)
		},
	})
	return answer, err
}

func (a Responder) Convert(ctx context.Context, r conversion.Review) (answer *effect.ConversionAnswer, err error) {
	_, err = a.Runner.Answer(ctx, run.Review{
		Review: r.Review, Quiet: true,
		Judge: func(out run.Outputs, err error) (string, error) {
			if err == nil {
				answer, err = parseAnswer("conversion", out.Conversion, wire.ParseConversion)
			}
			return r.Judge(answer, err)
		},
	})
	return answer, err
}

func (a Responder) Answer(ctx context.Context, h *hook.Hook, index int, request *event.Request) (answer effect.HTTPAnswer, err error) {
	_, err = a.Runner.Answer(ctx, run.Review{
		Review: event.Review{Event: event.Event{Type: event.HTTP, Hook: h, Index: index}}, Request: request,
		Judge: func(out run.Outputs, err error) (string, error) {
			if err != nil {
				return "", err
			}
			answer, err = wire.ParseHTTP(out.HTTP)
			return fmt.Sprintf("status %d, %d bytes", answer.Status, len(answer.Body)), badAnswer("http", err)
		},
	})
	switch {
	case errors.Is(err, run.ErrRate):
		err = fmt.Errorf("%w: %w", httphooks.ErrBusy, err)
	case errors.As(err, new(*process.TimeoutError)):
		err = fmt.Errorf("%w: %w", httphooks.ErrLate, err)
	}
	return answer, err
}

// badAnswer is the error of an answer that cannot be parsed.
func badAnswer(kind string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("got bad %s response: %w", kind, err)
}
