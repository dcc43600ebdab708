package admission

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
)

// verdict is what the API server is told.
type verdict struct {
	allowed bool
	// code and message are for a denial.
	code     int
	message  string
	warnings []string
	// patch is a JSON patch; nil means none.
	patch []byte
}

// failure is why a hook gave no verdict.
type failure struct {
	code int
	// public is for whoever made the request. What the hook printed is not in it: it may be confidential.
	public string
	cause  error
}

func (f *failure) Error() string {
	if f.cause == nil {
		return f.public
	}
	return f.cause.Error()
}

func (f *failure) Unwrap() error { return f.cause }

// judge turns what came of a run into a verdict. When the hook has given none, the failure policy does, and the failure
// is returned beside.
func (w *webhook) judge(operation string, answer *effect.AdmissionAnswer, err error) (verdict, *failure) {
	f := w.failed(answer, err)
	if f == nil && answer.Allowed {
		f = w.checkPatch(operation, answer.Patch)
	}
	switch {
	case f == nil && !answer.Allowed:
		// A patch of what is denied would change nothing.
		return verdict{code: http.StatusForbidden, message: answer.Message, warnings: presentable(answer.Warnings)}, nil
	case f == nil:
		return verdict{allowed: true, patch: orNothing(answer.Patch), warnings: presentable(answer.Warnings)}, nil
	case w.policy == policyIgnore:
		return verdict{allowed: true, warnings: presentable([]string{f.public + "; the request passes all the same, because the failure policy is Ignore"})}, f
	default:
		return verdict{code: f.code, message: f.public}, f
	}
}

func (w *webhook) failed(answer *effect.AdmissionAnswer, err error) *failure {
	switch {
	case errors.As(err, new(lateError)):
		return &failure{http.StatusForbidden, fmt.Sprintf("Hook failed: hook %q gave no answer in time", w.hook.Name), err}
	case err != nil:
		return &failure{http.StatusForbidden, fmt.Sprintf("Hook failed: hook %q could not review this, the log of the operator says why", w.hook.Name), err}
	case answer == nil:
		return &failure{http.StatusInternalServerError, fmt.Sprintf("handle AdmissionReview: hook task prop error: hook %q wrote no answer", w.hook.Name),
			errors.New(`the hook ended well but wrote no answer: write for instance {"allowed": true} into the file that $ADMISSION_RESPONSE_PATH names`)}
	}
	return nil
}

func (w *webhook) checkPatch(operation string, patch []byte) *failure {
	if len(patch) == 0 {
		return nil
	}
	err := checkPatch(patch)
	switch {
	case w.typ != event.Mutating:
		err = errors.New("only kubernetesMutating bindings may have one")
	case err == nil && operation == "DELETE" && orNothing(patch) != nil:
		err = errors.New("what is being deleted cannot be changed")
	}
	if err == nil {
		return nil
	}
	return &failure{http.StatusForbidden, fmt.Sprintf("Hook failed: hook %q answered with a wrong patch: %v", w.hook.Name, err), fmt.Errorf("the patch in the hook's answer is wrong: %w", err)}
}

// lateError says that there was no answer when the API server had to have one. It is the time that there was.
type lateError time.Duration

func (e lateError) Error() string {
	return fmt.Sprintf("the hook gave no answer within %s: make it faster, or raise timeoutSeconds", time.Duration(e))
}
