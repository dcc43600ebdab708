package wire

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// finalizer checks the finalizer of a binding, and that its events can lead to its removal.
func (p *parser) finalizer(o *object, k *hook.Kubernetes) {
	if v, ok := o.lookup("finalizer"); !ok || jq.TypeOf(v) != "string" {
		return
	}
	switch problems := content.IsLabelKey(k.Finalizer); {
	case len(problems) > 0:
		o.violation("finalizer", fmt.Sprintf("%q is no qualified name: %s", k.Finalizer, strings.Join(problems, " and ")),
			"write DOMAIN/NAME, such as example.com/cleanup")
		return
	case !strings.Contains(k.Finalizer, "/"):
		o.violation("finalizer", fmt.Sprintf("%q has no domain", k.Finalizer), "write DOMAIN/NAME, such as example.com/cleanup")
		return
	}
	if k.Group != "" {
		o.violation("group", "is set together with finalizer",
			"remove one of them: contexts of a group do not name the object that is being deleted")
	}
	retry := p.hook.Settings.Retry.Override(k.Retry)
	switch {
	case k.AllowFailure:
		p.warn(joined(o.path, "allowFailure"), "counts a failed run as success: the finalizer is removed although the cleanup may be incomplete")
	case retry != nil && retry.Exhausted == hook.Drop:
		o.violation("finalizer", "is set, but retry.exhausted is drop (in the binding or in settings.retry)",
			"set exhausted: park: a dropped Deleting leaves the object with its finalizer")
	}
	for i := range p.hook.Kubernetes {
		other := &p.hook.Kubernetes[i]
		if other.Finalizer == k.Finalizer && strings.EqualFold(other.Kind, k.Kind) &&
			(other.APIVersion == k.APIVersion || other.APIVersion == "" || k.APIVersion == "") {
			o.violation("finalizer", fmt.Sprintf("%q is that of kubernetes[%d] (binding %q), too, for the same kind", k.Finalizer, i, other.Name),
				"give each binding its own finalizer")
		}
	}
}
