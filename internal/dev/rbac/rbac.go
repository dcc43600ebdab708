// Package rbac derives the least permissions that an operator needs for its hooks.
//
// Callers may rely on this:
//   - With these permissions, an operator enables all bindings and serves all webhooks.
//   - A permission is limited to a namespace or to names wherever the API server can check that.
//   - Each rule names the hooks that need it.
//
// Not attempted: requests of hooks themselves. They and the operations of hooks are unknown without running them; the operations of test
// cases and of a running operator can be added.
package rbac

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/shard"
)

// Lookup finds the resource of a kind by what a binding calls it. It is guessed if no cluster has confirmed it.
type Lookup func(apiVersion, kind string) (found kube.Resource, guessed bool, err error)

// Options are the names of the roles, what the operator itself uses, and what its hooks do.
type Options struct {
	// Name is the name of all roles and their bindings. ServiceAccount and Namespace belong to the operator.
	Name, ServiceAccount, Namespace string
	// HooksOnly leaves out what the chart grants by itself: webhooks, the record of finalizers, Leases, and Events in its namespace.
	HooksOnly bool
	// Configuration is the name of the webhook configurations, Secret the name of the Secret with their certificates.
	Configuration, Secret string
	// Lease is the name of the Lease of the leader election; empty means that there is none.
	Lease string
	// Shards is the number of shards, each of which has a Lease, too.
	Shards int
	// Events: the operator reports failing hooks as Kubernetes Events in its namespace.
	Events bool
	// Uses are permissions for operations of the hooks.
	Uses []Use
	// Syncs reports whether a hook returns sets of objects. It may be nil.
	Syncs func(*hook.Hook) bool
	// Tested reports whether Uses has the operations of a hook, with the owners of its sets. It may be nil.
	Tested func(*hook.Hook) bool
}

// Use is a permission that operations of a hook need.
type Use struct {
	Namespace, Group, Resource string
	// Name limits the use to an object; empty means all.
	Name  string
	Verbs []string
	// Why is the reason, and what is to be known of the rule.
	Why string
	// Guessed: no cluster and no CRD has confirmed the resource.
	Guessed bool
}

// reasons are the comments of the rule.
func (u *Use) reasons() []string {
	if u.Guessed {
		return []string{u.Why, "GUESSED from a kind: make sure that this is its resource"}
	}
	return []string{u.Why}
}

// Role is a Role, or a ClusterRole if it has no namespace.
type Role struct {
	Namespace string
	Rules     []Rule
}

// Rule is a rule of a role.
type Rule struct {
	Group, Resource string
	// Names limits the rule to objects; empty means all.
	Names []string
	Verbs []string
	// Why are the reasons, in words.
	Why []string
}

// need is a permission for one name in one namespace; empty means all.
type need struct {
	namespace, group, resource, name string
	verbs                            string
	why                              []string
}

// watching are the verbs for watched kinds. The operator itself only lists and watches; "get" adds no exposure, and
// hooks use it to read the object again.
const watching = "get list watch"

// Plan returns the roles, first the ClusterRole, then the Roles by namespace. It fails for kinds that the lookup does not find.
func Plan(hooks []*hook.Hook, lookup Lookup, o Options) ([]Role, error) {
	var all []need
	var errs []error
	finalizes := false
	for _, h := range hooks {
		syncs := o.Syncs != nil && o.Syncs(h)
		if syncs {
			all = append(all, setRecords(h, o.Namespace, o.Tested != nil && o.Tested(h)))
		}
		for i := range h.Kubernetes {
			b := &h.Kubernetes[i]
			watched, err := watches(h, b, lookup)
			if err != nil {
				errs = append(errs, fmt.Errorf("hook %q, binding %q: %w", h.Name, b.Name, err))
				continue
			}
			all = append(all, watched...)
			finalizes = finalizes || b.Finalizer != ""
			if o.Events && !b.AllowFailure && h.Policy(hook.Address{Kind: hook.OnKubernetes, Index: i}, 0, 0).Limit > 0 {
				all = append(all, events(h, b)...)
			}
			if syncs && (o.Tested == nil || !o.Tested(h)) {
				all = append(all, sets(h, watched)...)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if o.HooksOnly {
		o.Lease, o.Shards, o.Events, finalizes = "", 0, false, false
	} else {
		all = append(all, webhooks(hooks, o)...)
	}
	if finalizes {
		const why = "record of the finalizers of bindings"
		all = append(all, need{o.Namespace, "", "configmaps", "shell-operator-finalizers", "get watch patch delete", []string{why}},
			need{o.Namespace, "", "configmaps", "", "create", []string{why + "; creating cannot be limited to a name"}})
	}
	switch {
	case o.Shards > 0:
		why := []string{"shards; keep these names while there are replicas with a larger number of shards"}
		all = append(all, need{o.Namespace, "coordination.k8s.io", "leases", o.Lease, "get update delete", why},
			need{o.Namespace, "coordination.k8s.io", "leases", "", "create list watch", []string{"shards; none can be limited to a name"}})
		for i := range o.Shards {
			all = append(all, need{o.Namespace, "coordination.k8s.io", "leases", shard.Lease(o.Lease, i), "get update delete", why})
		}
	case o.Lease != "":
		const why = "leader election"
		all = append(all,
			need{o.Namespace, "coordination.k8s.io", "leases", o.Lease, "get watch update", []string{why}},
			need{o.Namespace, "coordination.k8s.io", "leases", "", "create list",
				[]string{why + "; neither can be limited to a name, and a leader checks that no shard has an owner"}})
	}
	if o.Events {
		all = append(all, need{o.Namespace, "events.k8s.io", "events", "", "create patch", []string{"Events that report failing hooks"}})
	}
	for _, u := range o.Uses {
		all = append(all, need{u.Namespace, u.Group, u.Resource, u.Name, strings.Join(u.Verbs, " "), u.reasons()})
	}
	return roles(withoutCovered(all)), nil
}

// orAll are names, or the one that means all.
func orAll(names []string) []string {
	if len(names) == 0 {
		return []string{""}
	}
	return names
}

// watches is what a kubernetes binding needs.
func watches(h *hook.Hook, b *hook.Kubernetes, lookup Lookup) ([]need, error) {
	kind, guessed, err := lookup(b.APIVersion, b.Kind)
	if err != nil {
		return nil, err
	}
	why := []string{fmt.Sprintf("%s, kubernetes %q", h.Name, b.Name)}
	if guessed {
		why = append(why, fmt.Sprintf("GUESSED from the kind %s: make sure that this is its resource", b.Kind))
	}
	var all []need
	namespaces := orAll(nil)
	if kind.Namespaced {
		namespaces = orAll(b.Namespaces.Names)
		if b.Namespaces.ByLabels {
			all = append(all, need{"", "", "namespaces", "", watching, []string{why[0] + " selects namespaces by labels"}})
		}
	}
	for _, namespace := range namespaces {
		for _, name := range names(b) {
			all = append(all, need{namespace, kind.Group, kind.Resource, name, watching, why})
			if b.Condition != "" {
				all = append(all, need{namespace, kind.Group, kind.Resource + "/status", name,
					"patch", []string{why[0] + fmt.Sprintf(" reports its runs in the condition %s", b.Condition)}})
			}
		}
	}
	if b.Finalizer != "" {
		// Objects that have left the selectors, or were removed from the configuration, are among all of the kind.
		finds := []string{fmt.Sprintf("%s adds and removes the finalizer %s", why[0], b.Finalizer)}
		for _, namespace := range namespaces {
			all = append(all, need{namespace, kind.Group, kind.Resource, "", watching + " patch", finds})
		}
	}
	return all, nil
}

// setRecords is what the records of a hook's sets need, which are in the operator's namespace. The kinds of the sets' objects are unknown,
// unless the hook is tested.
func setRecords(h *hook.Hook, own string, tested bool) need {
	why := h.Name + ", records of the sets of Sync"
	if !tested {
		why += "; add the kinds of their objects"
	}
	return need{own, "", "configmaps", "", "create delete get list patch", []string{why}}
}

// sets is what sets need whose owners may be the watched objects.
func sets(h *hook.Hook, watched []need) (all []need) {
	for _, w := range watched {
		if w.group == "" && w.resource == "namespaces" || strings.Contains(w.resource, "/") {
			continue
		}
		all = append(all, need{w.namespace, w.group, w.resource + "/finalizers", w.name,
			"update", []string{h.Name + ", objects of sets block the deletion of their owner"}})
	}
	return all
}

// events is what Events about objects need for which no attempt is left.
func events(h *hook.Hook, b *hook.Kubernetes) (all []need) {
	for _, namespace := range orAll(b.Namespaces.Names) {
		all = append(all, need{namespace, "events.k8s.io", "events", "",
			"create patch", []string{fmt.Sprintf("%s, kubernetes %q: Events on objects without an attempt left", h.Name, b.Name)}})
	}
	return all
}

// names are those that a binding is limited to. The API server checks them, because the operator requests one name at a
// time.
func names(b *hook.Kubernetes) []string {
	if selector, err := fields.ParseSelector(b.Fields); err == nil && len(b.Names) == 0 {
		if name, exact := selector.RequiresExactMatch("metadata.name"); exact {
			return []string{name}
		}
	}
	return orAll(b.Names)
}

// webhooks is what the registration of webhook bindings needs.
func webhooks(hooks []*hook.Hook, o Options) (all []need) {
	const registration = "admissionregistration.k8s.io"
	for _, h := range hooks {
		for a, b := range h.Bindings() {
			why := []string{fmt.Sprintf("%s, %s %q", h.Name, a.Kind, b.Name)}
			switch a.Kind {
			case hook.OnValidating:
				all = append(all, need{"", registration, "validatingwebhookconfigurations", o.Configuration, "list watch update", why})
			case hook.OnMutating:
				all = append(all, need{"", registration, "mutatingwebhookconfigurations", o.Configuration, "list watch update", why})
			case hook.OnConversion:
				crd := h.Conversions[a.Index].CRDName
				all = append(all, need{"", "apiextensions.k8s.io", "customresourcedefinitions", crd, "list watch patch", why})
			}
		}
	}
	if len(all) > 0 {
		const why = "certificates of webhooks; not needed when you mount files"
		all = append(all,
			need{o.Namespace, "", "secrets", o.Secret, "get watch patch", []string{why}},
			need{o.Namespace, "", "secrets", "", "create", []string{why + ", or where an empty Secret of that name exists"}})
	}
	return all
}

// covers reports whether a includes b.
func (a *need) covers(b *need) bool {
	if a.group != b.group || a.resource != b.resource || a.namespace != "" && a.namespace != b.namespace || a.name != "" && a.name != b.name {
		return false
	}
	verbs := strings.Fields(a.verbs)
	return !slices.ContainsFunc(strings.Fields(b.verbs), func(verb string) bool { return !slices.Contains(verbs, verb) })
}

// withoutCovered drops needs that a wider one covers, which then has both reasons.
func withoutCovered(all []need) (kept []need) {
	type kind struct{ group, resource string }
	kinds := map[kind][]need{}
	for _, w := range all { // one covers others of its kind only: among all, 10,000 operations would take seconds
		k := kind{w.group, w.resource}
		kinds[k] = addNeed(kinds[k], w)
	}
	for _, needs := range kinds {
		kept = append(kept, needs...)
	}
	return kept
}

func addNeed(kept []need, w need) []need {
	if i := slices.IndexFunc(kept, func(k need) bool { return k.covers(&w) }); i >= 0 {
		kept[i].why = joinReasons(kept[i].why, w.why)
		return kept
	}
	w.why = slices.Clone(w.why)
	kept = slices.DeleteFunc(kept, func(k need) bool {
		if w.covers(&k) {
			w.why = joinReasons(k.why, w.why)
			return true
		}
		return false
	})
	return append(kept, w)
}

func joinReasons(a, b []string) []string {
	for _, reason := range b {
		if !slices.Contains(a, reason) {
			a = append(a, reason)
		}
	}
	return a
}

// roles joins needs that differ in their names only, and sorts.
func roles(all []need) []Role {
	slices.SortStableFunc(all, func(a, b need) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource),
			-cmp.Compare(len(a.verbs), len(b.verbs)), cmp.Compare(a.verbs, b.verbs), cmp.Compare(a.name, b.name))
	})
	var list []Role
	var last *need
	for i := range all {
		w := &all[i]
		if len(list) == 0 || list[len(list)-1].Namespace != w.namespace {
			list = append(list, Role{Namespace: w.namespace})
			last = nil
		}
		role := &list[len(list)-1]
		if last != nil && last.group == w.group && last.resource == w.resource && last.verbs == w.verbs && last.name != "" && w.name != "" {
			rule := &role.Rules[len(role.Rules)-1]
			rule.Names = append(rule.Names, w.name)
			rule.Why = joinReasons(rule.Why, w.why)
			continue
		}
		rule := Rule{Group: w.group, Resource: w.resource, Verbs: strings.Fields(w.verbs), Why: w.why}
		if w.name != "" {
			rule.Names = []string{w.name}
		}
		role.Rules = append(role.Rules, rule)
		last = w
	}
	return list
}
