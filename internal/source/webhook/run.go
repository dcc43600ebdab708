package webhook

import (
	"context"
	"sync"

	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
)

// Run serves, and registers when hooks are ready. It returns when ctx has ended and all requests have been answered. Errors of the first
// set are reported to fail, as an *Error; errors of later sets are logged.
func (w *Servers) Run(ctx context.Context, fail context.CancelCauseFunc) {
	defer close(w.ended)
	// The servers outlive the registrations, so that no registered port is closed.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
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
		if r.retired != nil {
			w.retired = append(w.retired, r.retired)
		}
		registering, stop := context.WithCancelCause(ctx)
		var registrars sync.WaitGroup
		now := r
		w.active = append(w.active, now.handlers...)
		registrars.Go(func() {
			now.register(registering, func(gone []*inPlace) {
				calls := w.retired
				w.retired, w.active = nil, now.handlers
				running.Go(func() {
					for _, h := range gone {
						h.requests.Wait()
						h.Wait()
					}
					for _, call := range calls {
						call()
					}
				})
			}, trouble)
		})
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
	for _, p := range w.active {
		p.handler.Wait()
	}
}
