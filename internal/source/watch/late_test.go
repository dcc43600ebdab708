package watch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
)

// The changes that wait for a slow binding are bounded. A list delivers the last state instead, which is not older than what was dropped.
func TestQueueIsBounded(t *testing.T) {
	gate, entered := make(chan struct{}), make(chan struct{}, 10)
	sink := &gated{events: make(chan event.Event, 10), keep: func() { entered <- struct{}{}; <-gate }}
	f, all := share(t, []string{""}, []*gated{sink})
	slow := f.consumers()[0]
	f.add(t, 0)
	test.Receive(t, entered, "call of Keep")

	text := make([]byte, 1<<20)
	const n = 3 * queueBytes >> 20 / 2
	change := func(v int) *arrival {
		o := &object{key: objectKey("", "big"), name: "big", uid: "big", resourceVersion: fmt.Sprint(v), json: text}
		return &arrival{object: o, version: uint64(v)}
	}
	for v := 11; v < 11+n; v++ {
		a := change(v)
		a.subs = f.reading(a.version)
		if err := f.Update(a); err != nil {
			t.Fatal(err)
		}
	}
	slow.mu.Lock()
	if !slow.waiting || slow.bytes > queueBytes {
		t.Errorf("waiting for a list: %t, with %d bytes", slow.waiting, slow.bytes)
	}
	slow.mu.Unlock()
	subs := f.late()
	if len(subs) != 1 || subs[0] != slow {
		t.Fatalf("a list for %d bindings", len(subs))
	}
	at, _ := f.begin(subs)
	if at != 10+n {
		t.Errorf("a list at version %d", at)
	}
	if slow.bytes != 0 || len(slow.queue) != 0 {
		t.Errorf("%d changes that the list contains are queued", len(slow.queue))
	}
	f.merge(f.ctx, subs, []*arrival{change(10 + n)}, at)
	close(gate)
	f.running.Wait()
	for _, want := range []string{"p0", "big"} {
		if ev := test.Receive(t, sink.events, "event"); ev.Object.Name != want {
			t.Errorf("an event for %s, want one for %s", ev.Object.Name, want)
		}
	}
	if len(sink.events) > 0 || slow.bytes != 0 {
		t.Errorf("%d more events, %d bytes in the queue", len(sink.events), slow.bytes)
	}
	if n := all[0].snapshot().Len(); n != 1 { // p0 is not in the list
		t.Errorf("%d objects", n)
	}
}

// Bindings share the bytes of an object after a late list, and do not keep those that they do not need.
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
	m.subs[sub].optional = true
	m.order.Lock()
	defer m.order.Unlock()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		m.answered(sub, "list", errForbidden)
	}()
	test.Receive(t, answered, "return")
}
