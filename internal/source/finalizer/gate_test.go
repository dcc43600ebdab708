package finalizer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// The requests of a binding that ends are answered before it is idle: then no object gets a finalizer any longer.
func TestEndedWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, answer := &world{t: t, bindings: map[string]*binding{}}, make(chan struct{})
		for _, line := range []string{"binding b", "list b x/a#1@1:a"} {
			w.do(strings.Fields(line))
		}
		g := w.bindings["b"].gate
		g.add = func(context.Context, kube.Finalized) error {
			<-answer
			return nil
		}
		if !g.close(newRequests()) {
			t.Fatal("it has ended")
		}
		go g.serve(t.Context())
		synctest.Wait()
		var idle <-chan struct{}
		g.binding.Look(func() { idle = g.Ended() })
		synctest.Wait()
		select {
		case <-idle:
			t.Error("idle while a request is in flight")
		default:
		}
		close(answer)
		<-idle
	})
}

// A run that succeeds before the gate is closed removes the finalizer once: nothing repeats a request that fails.
func TestReleaseBeforeTheGateIsClosed(t *testing.T) {
	w := &world{t: t, bindings: map[string]*binding{}}
	for _, line := range []string{"binding b", "list b x/a#1@1:a"} {
		w.do(strings.Fields(line))
	}
	g := w.bindings["b"].gate
	sent := 0
	g.remove = func(context.Context, kube.Finalized) ([]byte, error) {
		sent++
		return nil, errors.New("the API server is gone")
	}
	g.release(t.Context(), &event.Event{Watch: event.Deleting, Object: event.Object{Namespace: "x", Name: "a", UID: "1"}})
	if sent != 1 || len(g.removals) != 0 {
		t.Errorf("%d requests, %d removals wait", sent, len(g.removals))
	}
}
