package apply

import (
	"errors"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Answers are the responses in the files of a run; nil for those that it has not written.
type Answers struct {
	Admission  *effect.AdmissionAnswer
	Conversion *effect.ConversionAnswer
	HTTP       *effect.HTTPAnswer
}

// parseAnswers reads the responses of a run, also if it is not for a request.
func parseAnswers(h *hook.Hook, out run.Outputs) (a Answers, err error) {
	kind := "validating"
	if len(h.Validating) == 0 && len(h.Mutating) > 0 {
		kind = "mutating"
	}
	errs := make([]error, 3)
	a.Admission, errs[0] = parseAnswer(kind, out.Admission, wire.ParseAdmission)
	a.Conversion, errs[1] = parseAnswer("conversion", out.Conversion, wire.ParseConversion)
	a.HTTP, errs[2] = parseAnswer("http", out.HTTP, wire.ParseHTTP)
	return a, errors.Join(errs...)
}

// parseAnswer reads a response, nil without one.
func parseAnswer[Answer any](kind string, text []byte, parse func([]byte) (Answer, error)) (*Answer, error) {
	if text == nil {
		return nil, nil
	}
	answer, err := parse(text)
	return &answer, badAnswer(kind, err)
}

// Check checks the response to a review, if the run is for one, as the handler of its binding does. The response to an HTTP request may be
// empty. Head is the head of the run's first context.
func (a *Answers) Check(h *hook.Hook, head wire.ContextHead) error {
	if head.Type == event.Conversion {
		for i, b := range h.Conversions {
			if b.Name == head.Binding {
				return conversion.CheckAnswer(h, i, head.Step, head.Review, a.Conversion)
			}
		}
	}
	if head.Type == event.HTTP && a.HTTP == nil {
		answer, err := wire.ParseHTTP(nil)
		a.HTTP = &answer
		return err
	}
	bindings := map[event.Type][]hook.Admission{event.Validating: h.Validating, event.Mutating: h.Mutating}[head.Type]
	for i, b := range bindings {
		if b.Name == head.Binding {
			return admission.CheckAnswer(h, head.Type, i, head.Operation, head.Review, a.Admission)
		}
	}
	return nil
}
