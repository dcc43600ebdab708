package watch

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// A binding ends when its requests have been answered: then no object gets a finalizer any more.
func TestDisableWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage := newStage(t)
		stage.do([]string{"binding", "b", "finalizer"})
		b := stage.bindings["b"]
		h, answer := b.monitor.hook, make(chan struct{})
		b.monitor.gate.add = func(context.Context, kube.Finalized) error {
			<-answer
			return nil
		}
		w := &Watcher{bindingSet: bindingSet{monitors: map[address]*monitor{{h, 0}: b.monitor}}}
		for _, line := range []string{"join b s", "list s x/a#1:t"} {
			stage.do(strings.Fields(line))
		}
		if !b.monitor.closeGate(newRequests()) {
			t.Fatal("it has ended")
		}
		go b.monitor.serve(t.Context())
		synctest.Wait()
		disabled := make(chan struct{})
		go func() {
			w.Disable(h, 0)
			close(disabled)
		}()
		synctest.Wait()
		select {
		case <-disabled:
			t.Error("disabled while a request is in flight")
		default:
		}
		close(answer)
		<-disabled
	})
}
