package webhook

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// side runs the renewals of webhooks, or those of HTTP hooks.
type side struct {
	log   *slog.Logger
	first *renewal
	next  chan *renewal
	ended chan struct{}
	// replaced is the cause that ends the registrars of an earlier renewal.
	replaced error
	// unserved is why the last renewal is not served; nil if it is.
	unserved atomic.Pointer[Unregistered]
	// retired are the callbacks of renewals of which not all hooks are ready. current waits for the runs of the handlers that answer. The
	// goroutine of run owns both, except while a renewal registers.
	retired, current []func()
}

func newSide(log *slog.Logger, first *renewal, replaced error) *side {
	return &side{log: log, first: first, next: make(chan *renewal), ended: make(chan struct{}), replaced: replaced, current: first.wait}
}

// renew hands over a renewal, or aborts it after the end of run.
func (s *side) renew(r *renewal) {
	select {
	case s.next <- r:
	case <-s.ended:
		r.abort()
	}
}

// run serves, and registers when hooks are ready. It returns when ctx has ended and all requests have been answered. Errors
// of the first renewal are reported to fail; those of later ones are logged.
func (s *side) run(ctx context.Context, fail context.CancelCauseFunc) {
	defer close(s.ended)
	// The servers outlive the registrations, so that no registered port is closed.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for r, first := s.first, true; r != nil; first = false {
		what := r.what // parts outlive their renewal
		trouble := func(err error) {
			if err = (&Error{what, err}); first {
				fail(err)
				return
			}
			s.unserved.Store(&Unregistered{Subject: what, Err: err})
			s.log.Error("New hooks are not served", "error", err.Error())
		}
		begin(serving, &running, r.parts, trouble)
		if r.retired != nil {
			s.retired = append(s.retired, r.retired)
		}
		registering, stop := context.WithCancelCause(ctx)
		var registrars sync.WaitGroup
		now, previous := r, s.current
		if now != s.first { // whose handlers are active from the beginning
			s.current = slices.Concat(now.wait, previous)
		}
		registrars.Go(func() {
			now.register(registering, func(drain []func()) {
				if now == s.first {
					return
				}
				calls := s.retired
				s.retired, s.current = nil, now.wait
				running.Go(func() {
					for _, wait := range append(drain, previous...) {
						wait()
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
		case r = <-s.next:
			stop(s.replaced)
			s.unserved.Store(nil)
		}
		registrars.Wait()
	}
	endServing()
	running.Wait()
	for _, wait := range s.current {
		wait()
	}
}
