package watch

import (
	"strings"
	"testing"
)

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
