package watch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// A log that blocks does not hold up snapshots: nothing is logged with the lock of the monitor.
func TestLogsWithoutLock(t *testing.T) {
	w := newStage(t)
	b := w.binding("b", []string{"finalizer"})
	m, records := b.monitor, 0
	m.log = slog.New(sayer{slog.DiscardHandler, func(r slog.Record) {
		records++
		if !m.mu.TryLock() {
			t.Errorf("%q is logged with the lock held", r.Message)
			return
		}
		m.mu.Unlock()
	}})
	b.gate.todo = b.todo
	o := w.text("x/a#1:t")
	missing, other := apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New(`User "x" cannot patch resource "things"`)),
		errors.New("the webhook denied it")
	for _, err := range []error{missing, other, nil} {
		m.update(func() { b.gate.answeredAdd(b.gate.lack(&stream.Subscription{Consumer: m}, o, 0), err) })
		c := &change{finalizerChange: finalizerChange{key: o.Key, remove: true}}
		b.gate.answeredRemoval(c, w.text("x/a#1:t").JSON, err)
	}
	if records != 4 {
		t.Errorf("%d records", records)
	}
}

// A binding ends when its requests have been answered: then no object gets a finalizer any more.
func TestDisableWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage := newStage(t)
		stage.do([]string{"binding", "b", "finalizer"})
		b := stage.bindings["b"]
		h, answer := b.monitor.hook, make(chan struct{})
		b.gate.add = func(context.Context, kube.Finalized) error {
			<-answer
			return nil
		}
		w := &Watcher{streams: stream.NewPool(nil, nil, nil), bindingSet: bindingSet{monitors: map[address]*monitor{{h, 0}: b.monitor}}}
		for _, line := range []string{"join b s", "list s x/a#1:t"} {
			stage.do(strings.Fields(line))
		}
		if !b.gate.close(newRequests()) {
			t.Fatal("it has ended")
		}
		go b.gate.serve(t.Context())
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
