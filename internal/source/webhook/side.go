package webhook

import (
	"context"
	"log/slog"
	"sync"
)

// side runs what the renewals for one kind of callers bring.
type side struct {
	log   *slog.Logger
	first *renewal
	next  chan *renewal
	ended chan struct{}
	// replaced ends the registrars of an earlier renewal: others follow them.
	replaced error
	waits    []func()
	// retired are the callbacks of renewals whose handlers, or those of a later one, are not in place yet. previous waits for
	// the runs of the handlers that are. The goroutine of run has both, except while it lets a renewal register.
	retired, previous []func()
}

func newSide(log *slog.Logger, first *renewal, replaced error) *side {
	return &side{log: log, first: first, next: make(chan *renewal), ended: make(chan struct{}), replaced: replaced, previous: first.wait}
}

// renew takes a renewal, unless everything has ended.
func (s *side) renew(r *renewal) {
	select {
	case s.next <- r:
	case <-s.ended:
		r.abort()
	}
}

// run serves, and lets registrars begin when hooks can answer. It returns when ctx has ended and all requests have been
// answered. Trouble of the first renewal is told to fail; later ones are only logged, as the operator works.
func (s *side) run(ctx context.Context, fail context.CancelCauseFunc) {
	defer close(s.ended)
	// The servers outlive the registrations, so that nobody is led to a closed port.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for r, first := s.first, true; r != nil; first = false {
		what := r.what // parts outlive the renewal that brought them
		trouble := func(err error) {
			if err = (&Error{what, err}); first {
				fail(err)
				return
			}
			s.log.Error("Hooks that are new are not asked", "error", err.Error())
		}
		begin(serving, &running, r.parts, trouble)
		s.waits = append(s.waits, r.wait...)
		if r.retired != nil {
			s.retired = append(s.retired, r.retired)
		}
		registering, stop := context.WithCancelCause(ctx)
		var registrars sync.WaitGroup
		now := r
		registrars.Go(func() {
			now.register(registering, func(drain []func()) {
				calls, previous := s.retired, s.previous
				s.retired, s.previous = nil, now.wait
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
		}
		registrars.Wait()
	}
	endServing()
	running.Wait()
	for _, wait := range s.waits {
		wait()
	}
}
