package watch

import (
	"strings"
	"testing"
)

// Bindings share the bytes of an object after a late list and a resync, and do not keep those that they do not need.
func TestBytesAreShared(t *testing.T) {
	w := newStage(t)
	bytes := func(binding string) []byte {
		it, ok := w.bindings[binding].monitor.items.Get(objectKey("x", "a"))
		if !ok {
			t.Fatalf("%s has no object", binding)
		}
		return it.object.json
	}
	for _, command := range []string{
		"binding b", "binding slim jq slim", "join b s", "join slim s", "list s@10 x/a@1:one", "binding late", "join late s", "ask s", "late s@10 x/a@1:one",
	} {
		w.do(strings.Fields(command))
	}
	if &bytes("b")[0] != &bytes("late")[0] {
		t.Error("a binding that joined late has a copy")
	}
	if bytes("slim") != nil {
		t.Error("a binding without full objects keeps their bytes")
	}
	first := bytes("b")
	for _, command := range []string{"ask s resync", "late s@10 x/a@1:one"} {
		w.do(strings.Fields(command))
	}
	if &bytes("b")[0] != &first[0] || &bytes("late")[0] != &first[0] || bytes("slim") != nil {
		t.Error("a resync made copies")
	}
}

// A refused list of a binding that does not wait for it blocks nobody while its sink stores an event.
func TestRefusedListDoesNotWaitForTheSink(t *testing.T) {
	w := newStage(t)
	for _, command := range []string{"binding b", "join b s", "list s@10"} {
		w.do(strings.Fields(command))
	}
	m, sub := w.bindings["b"].monitor, w.bindings["b"].subs["s"]
	sub.optional = true
	m.order.Lock()
	defer m.order.Unlock()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		m.answered(sub, "list", errForbidden)
	}()
	receive(t, answered, "return")
}

// An object that was deleted before it was delivered does not count as one for which the filter fails.
func TestFailuresOfUnknownObjects(t *testing.T) {
	w := newStage(t)
	for _, command := range []string{"binding b jq", "join b s", "list s@10"} {
		w.do(strings.Fields(command))
	}
	m, sub := w.bindings["b"].monitor, w.bindings["b"].subs["s"]
	o := &object{key: "a", name: "a"}
	m.failures.failed(m.log, o, errNotFound)
	m.remove(sub, o)
	if n := len(m.failures.failing); n != 0 {
		t.Errorf("%d failures", n)
	}
}
