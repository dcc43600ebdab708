package admission

import (
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// CheckAnswer returns why a hook's answer to a review by its binding number index gives no verdict, with the text of the
// log. A nil answer means that the hook wrote none.
func CheckAnswer(h *hook.Hook, typ event.Type, index int, operation string, review []byte, answer *effect.AdmissionAnswer) error {
	return newWebhook(h, typ, index, policyFail).judge(operation, review, answer, nil).err()
}

// Path is where a Handler answers reviews of a hook's binding.
func Path(h *hook.Hook, a hook.Address) string {
	typ := event.Validating
	if a.Kind == hook.OnMutating {
		typ = event.Mutating
	}
	return newWebhook(h, typ, a.Index, policyFail).path
}
