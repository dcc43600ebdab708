package admission

import (
	"cmp"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

const (
	policyFail   = "Fail"
	policyIgnore = "Ignore"
)

// webhook is a binding as it is registered.
type webhook struct {
	hook    *hook.Hook
	typ     event.Type // Validating or Mutating
	index   int
	binding *hook.Admission
	path    string
	// policy decides without a verdict: policyFail or policyIgnore.
	policy string
}

func (w *webhook) address() hook.Address { return hook.Address{Kind: w.typ.Kind(), Index: w.index} }

// plan returns the webhooks of all hooks in the order of the hooks, validating ones first.
func plan(hooks []*hook.Hook, defaultPolicy string) (all []*webhook) {
	for _, h := range hooks {
		for i := range h.Validating {
			all = append(all, newWebhook(h, event.Validating, i, cmp.Or(defaultPolicy, policyFail)))
		}
		for i := range h.Mutating {
			all = append(all, newWebhook(h, event.Mutating, i, policyFail))
		}
	}
	return all
}

func newWebhook(h *hook.Hook, typ event.Type, index int, defaultPolicy string) *webhook {
	bindings := h.Validating
	if typ == event.Mutating {
		bindings = h.Mutating
	}
	b := &bindings[index]
	return &webhook{
		hook: h, typ: typ, index: index, binding: b, path: pathOf(h.Name, typ, b.Name), policy: cmp.Or(b.FailurePolicy, defaultPolicy),
	}
}

// routes leads paths to webhooks: by kind and name, which end the path, because the hook of a registered path may have been renamed or have
// given the binding to another one; and by upstream's path where that is unique, which the API server may call during a migration.
type routes map[string]*webhook

func newRoutes(all []*webhook) routes {
	r := routes{}
	for _, w := range all {
		old := byName(legacyPath(w.binding.Name))
		_, taken := r[old]
		if r[old] = w; taken {
			r[old] = nil
		}
	}
	for _, w := range all {
		r[byName(w.path)] = w
	}
	return r
}

func (r routes) find(path string) *webhook { return r[byName(path)] }
