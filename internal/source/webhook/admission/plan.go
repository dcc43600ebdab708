package admission

import (
	"cmp"
	"errors"
	"fmt"

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
func plan(hooks []*hook.Hook, defaultPolicy string) ([]*webhook, error) {
	defaultPolicy = cmp.Or(defaultPolicy, policyFail)
	if defaultPolicy != policyFail && defaultPolicy != policyIgnore {
		return nil, fmt.Errorf("the failure policy %q is unknown: use Fail or Ignore", defaultPolicy)
	}
	var all []*webhook
	for _, h := range hooks {
		for i := range h.Validating {
			all = append(all, newWebhook(h, event.Validating, i, defaultPolicy))
		}
		for i := range h.Mutating {
			all = append(all, newWebhook(h, event.Mutating, i, policyFail))
		}
	}
	var errs []error
	for _, c := range findConflicts(all) {
		errs = append(errs, c)
	}
	return all, errors.Join(errs...)
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

// Conflict is a binding that has the name of another one.
type Conflict struct {
	Hook string
	// Place is where the binding is in the configuration of the hook.
	Place   string
	problem string
}

func (c *Conflict) Error() string { return c.problem }

// findConflicts finds duplicate names, which the API server rejects.
func findConflicts(all []*webhook) (found []*Conflict) {
	type name struct {
		typ  event.Type
		text string
	}
	names := map[name]*webhook{}
	for _, w := range all {
		if named, taken := names[name{w.typ, w.binding.Name}]; taken {
			found = append(found, &Conflict{Hook: w.hook.Name, Place: fmt.Sprintf("%s[%d].name", w.typ, w.index), problem: fmt.Sprintf(
				"hooks %q and %q both have a %s binding %q: give each a name of its own", named.hook.Name, w.hook.Name, w.typ, w.binding.Name)})
		}
		names[name{w.typ, w.binding.Name}] = w
	}
	return found
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

// Conflicts are those between hooks.
func Conflicts(hooks []*hook.Hook) []*Conflict {
	all, _ := plan(hooks, "")
	return findConflicts(all)
}
