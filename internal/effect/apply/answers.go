package apply

import (
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

// ParseAnswers reads the responses of a run, and checks one to a review as the handler of its binding does. Head is that of its first context.
func ParseAnswers(h *hook.Hook, head wire.ContextHead, out run.Outputs) (a Answers, err error) {
	if out.Admission != nil {
		answer, err := wire.ParseAdmission(out.Admission)
		if err != nil {
			return a, err
		}
		a.Admission = &answer
	}
	if out.Conversion != nil {
		answer, err := wire.ParseConversion(out.Conversion)
		if err != nil {
			return a, err
		}
		a.Conversion = &answer
	}
	if out.HTTP != nil || head.Type == event.HTTP { // an empty file is an answer, too
		answer, err := wire.ParseHTTP(out.HTTP)
		if err != nil {
			return a, err
		}
		a.HTTP = &answer
	}
	return a, a.check(h, head)
}

// check checks the response to a review, if the context is one.
func (a *Answers) check(h *hook.Hook, head wire.ContextHead) error {
	if head.Type == event.Conversion {
		for i, b := range h.Conversions {
			if b.Name == head.Binding {
				return conversion.CheckAnswer(h, i, head.Step, head.Review, a.Conversion)
			}
		}
	}
	bindings := map[event.Type][]hook.Admission{event.Validating: h.Validating, event.Mutating: h.Mutating}[head.Type]
	for i, b := range bindings {
		if b.Name == head.Binding {
			return admission.CheckAnswer(h, head.Type, i, head.Operation, head.Review, a.Admission)
		}
	}
	return nil
}
