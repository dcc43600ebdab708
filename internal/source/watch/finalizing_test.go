package watch

import (
	"errors"
	"log/slog"
	"testing"

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
