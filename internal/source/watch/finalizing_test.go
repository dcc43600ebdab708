package watch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shell-operator/shell-operator/internal/kube"
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
	sub := &subscription{consumer: m}
	o := w.text("x/a#1:t")
	other := errors.New("the webhook denied it")
	for _, err := range []error{errForbidden, other, nil} {
		r := &request{key: o.key, sub: sub, object: kube.Finalized{Name: "a", UID: "1"}}
		m.finalizerAdded(t.Context(), r, w.text("x/a+f#1:t").json, err)
		m.finalizerRemoved(&request{key: o.key, remove: true}, w.text("x/a#1:t").json, err)
	}
	if records != 6 {
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
		b.monitor.finalizing.add = func(context.Context, kube.Finalized) ([]byte, error) {
			<-answer
			return stage.text("x/a+f#1:t").json, nil
		}
		w := &Watcher{monitors: map[address]*monitor{{h, 0}: b.monitor}}
		go b.monitor.dispatch(t.Context())
		for _, line := range []string{"join b s", "list s x/a#1:t"} {
			stage.do(strings.Fields(line))
		}
		if !b.monitor.activate() {
			t.Fatal("it has ended")
		}
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
