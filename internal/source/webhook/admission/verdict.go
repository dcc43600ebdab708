package admission

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// verdict is what the API server gets.
type verdict struct {
	allowed bool
	// code and message belong to a denial.
	code     int
	message  string
	warnings []string
	// patch is a JSON patch; nil means none.
	patch []byte
	// failure is why the failure policy decides instead of the hook.
	failure *failure
}

// String is the verdict for the record of a run. Patches may contain values and are left out.
func (v *verdict) String() string {
	text := ResultAllowed
	switch {
	case !v.allowed && v.message == "":
		return ResultDenied
	case !v.allowed:
		return ResultDenied + ": " + v.message
	case len(v.patch) > 0:
		text += ", with a patch"
	}
	if len(v.warnings) > 0 {
		text += ", with warnings: " + strings.Join(v.warnings, "; ")
	}
	return text
}

func (v *verdict) result() string {
	switch {
	case v.failure != nil:
		return ResultFailed
	case v.allowed:
		return ResultAllowed
	}
	return ResultDenied
}

func (v *verdict) err() error {
	if v.failure == nil {
		return nil
	}
	return v.failure
}

// failure is why a hook gave no verdict.
type failure struct {
	code int
	// public is for the user of the request. It contains nothing that the hook printed, which may be confidential.
	public string
	cause  error
}

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

// judge turns the outcome of a run for a review into a verdict. Without a valid answer the failure policy decides.
func (w *webhook) judge(operation string, review []byte, answer *effect.AdmissionAnswer, err error) *verdict {
	f := w.failed(answer, err)
	if f == nil && answer.Allowed && len(answer.Patch) > 0 {
		f = w.checkPatch(operation, review, answer.Patch)
	}
	switch {
	case f == nil && !answer.Allowed:
		// A patch of a denied request would change nothing.
		return &verdict{code: http.StatusForbidden, message: answer.Message, warnings: presentable(answer.Warnings)}
	case f == nil:
		return &verdict{allowed: true, patch: orNothing(answer.Patch), warnings: presentable(answer.Warnings)}
	case w.policy == policyIgnore:
		warning := f.public + "; the request is allowed because the failure policy is Ignore"
		return &verdict{allowed: true, warnings: presentable([]string{warning}), failure: f}
	}
	return &verdict{code: f.code, message: f.public, failure: f}
}

func (w *webhook) failed(answer *effect.AdmissionAnswer, err error) *failure {
	known := (*failure)(nil)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, new(httpserver.Late)):
		return &failure{http.StatusForbidden, fmt.Sprintf("Hook failed: hook %q gave no answer in time", w.hook.Name), err}
	case err != nil:
		return &failure{http.StatusForbidden,
			fmt.Sprintf("Hook failed: hook %q could not review the request, see the log of the operator", w.hook.Name), err}
	case answer == nil:
		return &failure{http.StatusInternalServerError, fmt.Sprintf("Hook failed: hook %q wrote no answer", w.hook.Name),
			errors.New(`the hook exited with status 0 but wrote no answer: write for instance {"allowed": true} to the file named by ` +
				`$ADMISSION_RESPONSE_PATH`)}
	}
	return nil
}

func (w *webhook) checkPatch(operation string, review, patch []byte) *failure {
	var err error
	switch {
	case w.typ != event.Mutating:
		err = errors.New("only kubernetesMutating bindings may return one")
	case operation == "DELETE" && orNothing(patch) != nil:
		err = errors.New("a DELETE request cannot be changed")
	default:
		err = checkApplies(review, patch)
	}
	if err == nil {
		return nil
	}
	return &failure{http.StatusForbidden, fmt.Sprintf("Hook failed: hook %q answered with an invalid patch: %v", w.hook.Name, err),
		fmt.Errorf("the patch in the hook's answer is invalid: %w", err)}
}
