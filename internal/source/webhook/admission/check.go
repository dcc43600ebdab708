package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// check sends the object with the webhooks of all hooks as a dry run, and returns why the API server rejects it. Without an answer, or the
// permission, it returns nil: reconcile will report that.
func (k *keeper) check(ctx context.Context) error {
	live, err := k.look(ctx)
	if err != nil {
		return nil
	}
	all, options := *k, *k.opts
	options.Ready = func(*hook.Hook, hook.Address) bool { return true }
	all.opts = &options
	want := all.desired(live, k.bundle(live))
	err = k.put(ctx, live, want, "All")
	if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !apierrors.IsRequestEntityTooLargeError(err) {
		return nil
	}
	return k.culprit(err, want)
}

var webhookField = regexp.MustCompile(`^webhooks\[(\d+)\]\.?(.*)`)

// culprit names the hooks whose webhooks the API server rejects.
func (k *keeper) culprit(err error, want *configuration) error {
	var errs []error
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			match := webhookField.FindStringSubmatch(cause.Field)
			if match == nil {
				continue
			}
			index, _ := strconv.Atoi(match[1])
			for _, w := range k.webhooks {
				if index < len(want.Webhooks) && w.binding.Name == want.Webhooks[index].Name {
					errs = append(errs, fmt.Errorf("the API server rejects the webhook %q of hook %q: %s%s: %s", w.binding.Name, w.hook.Name,
						match[2], expression(w.binding, match[2]), cmp.Or(cause.Message, string(cause.Type))))
				}
			}
		}
	}
	if len(errs) == 0 {
		return k.explain(err)
	}
	return errors.Join(errs...)
}

// expression quotes the expression of a condition: the text of the API server, which has it, too, may be dropped.
func expression(b *hook.Admission, field string) string {
	var index int
	if n, _ := fmt.Sscanf(field, "matchConditions[%d].expression", &index); n == 0 || index >= len(b.MatchConditions) {
		return ""
	}
	return " " + strconv.Quote(b.MatchConditions[index].Expression)
}
