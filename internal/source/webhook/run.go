package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
)

// Run serves, and registers when hooks are ready. It returns when ctx has ended and all requests have been answered. Errors of the first
// set are reported to fail, as an *Error; errors of later sets are logged.
func (w *Servers) Run(ctx context.Context, fail context.CancelCauseFunc) {
	defer close(w.ended)
	// The servers outlive the registrations, so that no registered port is closed.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { w.replace(ctx, &running) })
	for r, first := w.first, true; r != nil; first = false {
		trouble := func(what string, err error) {
			if err = (&Error{what, err}); first {
				fail(err)
				return
			}
			w.unserved.report("", nil, what, err)
			w.o.Log.Error("New hooks are not served", "error", err.Error())
		}
		begin(serving, &running, r.parts, trouble)
		registering, stop := context.WithCancelCause(ctx)
		var registrars sync.WaitGroup
		begin(registering, &registrars, r.registrars, trouble)
		select {
		case <-ctx.Done():
			stop(nil)
			r = nil
		case r = <-w.next:
			stop(admission.ErrReplaced)
			w.unserved.clear()
		}
		registrars.Wait()
	}
	endServing()
	running.Wait()
	for _, at := range w.places() {
		for _, v := range at.list() {
			v.requests.Wait()
		}
	}
}

// places are those of handlers.
func (w *Servers) places() []*replaceable { return []*replaceable{&w.admits, &w.converts, &w.serves} }

// replace ends earlier versions, hook by hook, until ctx ends: when newer ones are ready, or API servers do not call their paths any more,
// which is checked once a minute while there are some.
func (w *Servers) replace(ctx context.Context, running *sync.WaitGroup) {
	for {
		ready, lag := w.o.ReadyChanged(), (<-chan time.Time)(nil)
		for _, at := range w.places() {
			for _, v := range at.prune() {
				running.Go(func() {
					at.end(v)
					(*w.retired.Load())()
				})
			}
			if len(at.list()) > 1 {
				lag = time.After(knownFor)
			}
		}
		(*w.retired.Load())()
		select {
		case <-ready:
		case <-w.changed:
		case <-lag:
		case <-ctx.Done():
			return
		}
	}
}
