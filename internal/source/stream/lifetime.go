package stream

import (
	"slices"

	"github.com/shell-operator/shell-operator/internal/jq"
)

// lifetime has the fields of an object that consumers with Needs.Lifetime read. It is nil for an object without any of them.
type lifetime struct {
	terminating bool
	// generation is the text of the number.
	generation string
	finalizers []string
}

// readLifetime reads the object's JSON, which scan has found valid.
func readLifetime(raw []byte) *lifetime {
	l := &lifetime{}
	w := jq.Walk(raw)
	w.Enter('{')
	for name := w.Member(); name != nil; name = w.Member() {
		if string(name) != `"metadata"` || !w.Enter('{') {
			w.Skip()
			continue
		}
		for key := w.Member(); key != nil; key = w.Member() {
			switch string(key) {
			case `"deletionTimestamp"`:
				at, err := text(&w)
				l.terminating = err == nil && len(at) > 0
			case `"generation"`:
				l.generation = string(w.Value())
			case `"finalizers"`:
				l.finalizers = texts(&w)
			default:
				w.Skip()
			}
		}
	}
	if !l.terminating && len(l.finalizers) == 0 && l.generation == "" {
		return nil
	}
	return l
}

// texts reads a list of strings; null is an empty one.
func texts(w *jq.Walker) (list []string) {
	if !w.Enter('[') {
		w.Skip()
		return nil
	}
	for w.Element() {
		item, err := text(w)
		if err != nil {
			return nil
		}
		list = append(list, string(item))
	}
	return list
}

func (o *Object) Terminating() bool { return o.lifetime != nil && o.lifetime.terminating }

func (o *Object) Generation() string {
	if o.lifetime == nil {
		return ""
	}
	return o.lifetime.generation
}

func (o *Object) Finalizers() []string {
	if o.lifetime == nil {
		return nil
	}
	return o.lifetime.finalizers
}

func (o *Object) HasFinalizer(finalizer string) bool {
	return slices.Contains(o.Finalizers(), finalizer)
}
