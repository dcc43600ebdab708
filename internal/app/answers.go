package app

import (
	"context"
	"errors"
	"fmt"

	httphooks "github.com/shell-operator/shell-operator/internal/source/http"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// answers runs hooks for those who ask them, and reads what the hooks answer.
type answers struct{ *run.Runner }

var (
	_ admission.Runner  = answers{}
	_ conversion.Runner = answers{}
	_ httphooks.Runner  = answers{}
)

func (a answers) Admit(ctx context.Context, h *hook.Hook, typ event.Type, index int, review []byte) (*effect.AdmissionAnswer, error) {
	out, err := a.Runner.Answer(ctx, run.Review{Event: event.Event{Type: typ, Hook: h, Index: index}, Body: review})
	if err != nil || out.Admission == nil {
		return nil, err
	}
	answer, err := wire.ParseAdmission(out.Admission)
	return &answer, err
}

func (a answers) Convert(ctx context.Context, h *hook.Hook, index int, step hook.ConversionStep, review []byte) (*effect.ConversionAnswer, error) {
	out, err := a.Runner.Answer(ctx, run.Review{
		Event: event.Event{Type: event.Conversion, Hook: h, Index: index}, Body: review, Step: step,
	})
	if err != nil || out.Conversion == nil {
		return nil, err
	}
	answer, err := wire.ParseConversion(out.Conversion)
	return &answer, err
}

func (a answers) Answer(ctx context.Context, h *hook.Hook, index int, request *event.Request) (effect.HTTPAnswer, error) {
	out, err := a.Runner.Answer(ctx, run.Review{Event: event.Event{Type: event.HTTP, Hook: h, Index: index}, Request: request})
	switch {
	case errors.Is(err, run.ErrRate):
		return effect.HTTPAnswer{}, fmt.Errorf("%w: %w", httphooks.ErrBusy, err)
	case errors.As(err, new(*process.TimeoutError)):
		return effect.HTTPAnswer{}, fmt.Errorf("%w: %w", httphooks.ErrLate, err)
	case err != nil:
		return effect.HTTPAnswer{}, err
	}
	return wire.ParseHTTP(out.HTTP)
}
