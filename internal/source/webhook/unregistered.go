package webhook

import (
	"cmp"
	"slices"
	"sync"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Unregistered is a registration that fails: the API server sends no requests to these hooks, or to an older address.
type Unregistered struct {
	// Kind is the kind of the bindings; empty if it is about all webhooks.
	Kind  hook.Kind
	Hooks []string
	// Left is what is wrong with an object whose webhooks belong to no hook, or with a hook in whose place an earlier version answers; empty
	// for others.
	Left string
	// Subject is the object in the cluster.
	Subject string
	Err     error
}

// registrations knows the registrations that fail now.
type registrations struct {
	mu      sync.Mutex
	failing map[string]Unregistered // by subject
	// left is handed to each registrar of admission webhooks, as RegistrarOptions.Left.
	left sync.Map
}

// report records why bindings of hooks are not registered in an object; without an error they are.
func (r *registrations) report(kind hook.Kind, hooks []string, object string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.failing, object)
		return
	}
	if r.failing == nil {
		r.failing = map[string]Unregistered{}
	}
	u := Unregistered{Kind: kind, Hooks: hooks, Subject: object, Err: err}
	if len(hooks) == 0 {
		u.Kind = "" // it is about no binding
		switch kind {
		case "":
		case hook.OnConversion:
			u.Left = "it leads to this operator, and no hook converts its objects, which cannot be read"
		default:
			u.Left = "it has webhooks that no hook has any more, and with failure policy Fail they block requests"
		}
	}
	r.failing[object] = u
}

// clear forgets all failures.
func (r *registrations) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = nil
}

func (r *registrations) all() (list []Unregistered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.failing {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b Unregistered) int { return cmp.Compare(a.Subject, b.Subject) })
	return list
}

// Unregistered are the registrations that fail now, the servers of new hooks that do, and the hooks whose earlier versions answer because
// they do not become ready.
func (w *Servers) Unregistered() []Unregistered {
	all := append(w.registrations.all(), w.unserved.all()...)
	for _, at := range w.places() {
		all = append(all, at.overdue(w.o.Stuck)...)
	}
	return all
}

// namesOf are the hooks with a binding of one of the kinds.
func namesOf(hooks []*hook.Hook, kinds ...hook.Kind) (names []string) {
	for _, h := range hooks {
		if h.Count(func(k hook.Kind) bool { return slices.Contains(kinds, k) }) > 0 {
			names = append(names, h.Name)
		}
	}
	return names
}
