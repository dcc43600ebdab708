package watch

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/stream"
	"github.com/shell-operator/shell-operator/internal/test"
)

// Bindings share the bytes of an object after a late list, and do not keep those that they do not need.
func TestBytesAreShared(t *testing.T) {
	w := newStage(t)
	bytes := func(binding string) []byte {
		it, ok := w.bindings[binding].monitor.items.Get(stream.KeyOf("x", "a"))
		if !ok {
			t.Fatalf("%s has no object", binding)
		}
		return it.object.JSON
	}
	for _, command := range []string{
		"binding b", "binding slim jq slim", "join b s", "join slim s", "list s@10 x/a@1:one", "binding late", "join late s", "ask s",
		"late s@10 x/a@1:one",
	} {
		w.do(strings.Fields(command))
	}
	if &bytes("b")[0] != &bytes("late")[0] {
		t.Error("a binding that joined late has a copy")
	}
	if bytes("slim") != nil {
		t.Error("a binding without full objects keeps their bytes")
	}
}

// An API server whose lists have no version, or a lower one than the watch, does not keep a binding waiting silently.
func TestVersionOfLateList(t *testing.T) {
	for _, test := range []struct{ version, stuck string }{
		{"", ""},
		{"1", "the list has version \"1\", which is before 2"},
	} {
		s := newServer(1)
		follow(t, s, func(w *Watcher, seen *witness) {
			seen.enter(w, "first", 0)
			s.write("second", false)
			time.Sleep(time.Minute) // the watch has read it
			s.mu.Lock()
			s.listed = &test.version
			s.mu.Unlock()
			ctx, cancel := context.WithTimeout(seen.t.Context(), time.Minute)
			defer cancel()
			var mu sync.Mutex // some errors are reported after Enable
			var stuck []string
			late := bindings("late", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n")})
			err := w.Enable(ctx, late, func(_ int, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					stuck = append(stuck, err.Error())
				}
			})
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(stuck, "\n"); (err != nil) != (test.stuck != "") || !strings.Contains(got, test.stuck) {
				t.Errorf("version %q: %v, stuck: %q", test.version, err, got)
			}
		})
	}
}

// A rejected list of a binding that does not wait for it blocks no other binding while its sink stores an event.
func TestRefusedListDoesNotWaitForTheSink(t *testing.T) {
	w := newStage(t)
	for _, command := range []string{"binding b", "join b s", "list s@10"} {
		w.do(strings.Fields(command))
	}
	m, sub := w.bindings["b"].monitor, w.bindings["b"].subs["s"]
	m.subs[sub].dispensable = true
	m.order.Lock()
	defer m.order.Unlock()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		m.Answered(sub, "list", errForbidden)
	}()
	test.Receive(t, answered, "return")
}
