package conversion

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// CheckAnswer returns why the operator would reject a hook's answer to the review of one step, by its binding number
// index. A nil answer means that the hook wrote none.
func CheckAnswer(h *hook.Hook, index int, declared hook.ConversionStep, body []byte, answer *effect.ConversionAnswer) error {
	crd := h.Conversions[index].CRDName
	rv, err := readReview(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the review of the context cannot be read: %w", err)
	}
	s := step{from: full(crd, declared.From), to: full(crd, declared.To), hook: h, index: index, declared: declared}
	switch {
	case answer == nil:
		return errors.New(s.failed(rv, "it wrote no answer to the file named by $CONVERSION_RESPONSE_PATH"))
	case answer.Failure != "":
		return nil // that is an answer
	}
	given, err := readObjects(rv.Request.Objects)
	if err != nil {
		return fmt.Errorf("the review of the context cannot be read: %w", err)
	}
	if _, err := check(s, rv.Request.Desired, given, answer.Objects); err != nil {
		return errors.New(s.failed(rv, err.Error()))
	}
	return nil
}
