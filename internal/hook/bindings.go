package hook

import (
	"iter"
	"slices"
)

// Kind is the kind of a binding. Its text is the key of the configuration.
type Kind string

const (
	OnStart      Kind = "onStartup"
	OnSchedule   Kind = "schedule"
	OnKubernetes Kind = "kubernetes"
	OnValidating Kind = "kubernetesValidating"
	OnMutating   Kind = "kubernetesMutating"
	OnConversion Kind = "kubernetesCustomResourceConversion"
	OnHTTP       Kind = "http"
)

// Caller names the component that waits for the answer of a run. It is empty for kinds whose runs are queued.
func (k Kind) Caller() string {
	switch k {
	case OnValidating, OnMutating, OnConversion:
		return "the API server"
	case OnHTTP:
		return "a client"
	}
	return ""
}

// Address is the place of a binding in its hook.
type Address struct {
	Kind Kind
	// Index is the place in the list of the kind, such as Hook.Schedules.
	Index int
}

// Bound has the fields of every kind of binding.
type Bound struct {
	*Binding
	// Queue is the name of the queue of its events. It is empty for kinds with a Caller.
	Queue        string
	AllowFailure bool
	// Retry is the binding's own policy, if any; Hook.Policy returns the effective one.
	Retry *Retry
}

// At returns the binding at an address, which has to exist.
func (h *Hook) At(a Address) Bound {
	switch a.Kind {
	case OnSchedule:
		b := &h.Schedules[a.Index]
		return Bound{&b.Binding, b.Queue, b.AllowFailure, b.Retry}
	case OnKubernetes:
		b := &h.Kubernetes[a.Index]
		return Bound{&b.Binding, b.Queue, b.AllowFailure, b.Retry}
	case OnValidating:
		return Bound{Binding: &h.Validating[a.Index].Binding}
	case OnMutating:
		return Bound{Binding: &h.Mutating[a.Index].Binding}
	case OnConversion:
		return Bound{Binding: &h.Conversions[a.Index].Binding}
	case OnHTTP:
		return Bound{Binding: &h.HTTP[a.Index].Binding}
	}
	return Bound{Binding: &Binding{Name: string(OnStart)}, Queue: MainQueue}
}

// About returns what a binding is for: crontabs, kinds, resources, CRDs, routes.
func (h *Hook) About(a Address) []string {
	switch a.Kind {
	case OnSchedule:
		return []string{h.Schedules[a.Index].Crontab}
	case OnKubernetes:
		return []string{h.Kubernetes[a.Index].Kind}
	case OnValidating:
		return h.Validating[a.Index].resources()
	case OnMutating:
		return h.Mutating[a.Index].resources()
	case OnConversion:
		return []string{h.Conversions[a.Index].CRDName}
	case OnHTTP:
		return []string{h.HTTP[a.Index].Method + " " + h.HTTP[a.Index].Path}
	}
	return nil
}

// Bindings yields all bindings, kind by kind.
func (h *Hook) Bindings() iter.Seq2[Address, Bound] {
	counts := map[Kind]int{
		OnSchedule: len(h.Schedules), OnKubernetes: len(h.Kubernetes), OnValidating: len(h.Validating), OnMutating: len(h.Mutating),
		OnConversion: len(h.Conversions), OnHTTP: len(h.HTTP),
	}
	if h.OnStartup != nil {
		counts[OnStart] = 1
	}
	return func(yield func(Address, Bound) bool) {
		for _, kind := range Kinds() {
			for i := range counts[kind] {
				if a := (Address{kind, i}); !yield(a, h.At(a)) {
					return
				}
			}
		}
	}
}

// Kinds are all kinds, in the order of Bindings.
func Kinds() []Kind {
	return []Kind{OnStart, OnSchedule, OnKubernetes, OnValidating, OnMutating, OnConversion, OnHTTP}
}

// Count returns the number of bindings that fit.
func (h *Hook) Count(fits func(Kind) bool) (n int) {
	for a := range h.Bindings() {
		if fits(a.Kind) {
			n++
		}
	}
	return n
}

// Answering reports whether a binding with a Caller includes the snapshot of a kubernetes binding: every replica needs all its objects.
func (h *Hook) Answering(index int) bool {
	for a, b := range h.Bindings() {
		if a.Kind.Caller() != "" && slices.Contains(b.Includes, index) {
			return true
		}
	}
	return false
}

func (a *Admission) resources() (all []string) {
	for _, r := range a.Rules {
		all = append(all, r.Resources...)
	}
	return all
}
