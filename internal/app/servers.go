package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/service"
)

// part runs until its context ends.
type part = func(context.Context) error

// renewal is what servers need for a new set of hooks.
type renewal struct {
	// what names it in errors.
	what string
	// parts are new servers, and what they need.
	parts []part
	// services are those that the operator is to make, registrars lead callers to the servers.
	services   []service.Options
	registrars []part
	// swap puts the new handlers in place, wait returns when none of their runs is left.
	swap, wait []func()
	// ready are closed when the hooks can answer.
	ready []<-chan struct{}
	// opened are the new servers, until they run, and closed forgets them.
	opened []*webhook.Server
	closed []func()
}

// abort gives back what a renewal has taken that is not to be.
func (r *renewal) abort() {
	for _, s := range r.opened {
		_ = s.Close()
	}
	for _, f := range r.closed {
		f()
	}
}

// replaceable is a handler that another one can take the place of.
type replaceable struct{ now atomic.Pointer[http.Handler] }

func (r *replaceable) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if h := r.now.Load(); h != nil {
		(*h).ServeHTTP(w, req)
		return
	}
	http.Error(w, "the hooks are being loaded", http.StatusServiceUnavailable)
}

func (r *replaceable) put(h http.Handler) { r.now.Store(&h) }

// servers run what renewals bring.
type servers struct {
	first *renewal
	next  chan *renewal
	ended chan struct{}
	// replaced ends the registrars of an earlier renewal: others follow them.
	replaced error
	waits    []func()
}

func newServers(first *renewal, replaced error) *servers {
	return &servers{first: first, next: make(chan *renewal), ended: make(chan struct{}), replaced: replaced}
}

// renew takes a renewal, unless everything has ended.
func (s *servers) renew(r *renewal) {
	select {
	case s.next <- r:
	case <-s.ended:
		r.abort()
	}
}

// run serves, and lets registrars begin when hooks can answer. It returns when ctx has ended and all requests have been
// answered. Trouble of the first renewal is told to fail; later ones are only logged, as the operator works.
func (s *servers) run(ctx context.Context, op *operator, fail context.CancelCauseFunc) {
	defer close(s.ended)
	// The servers outlive the registrations, so that nobody is led to a closed port.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for r, first := s.first, true; r != nil; first = false {
		what := r.what // parts outlive the renewal that brought them
		trouble := func(err error) {
			if err = (&servingError{what, err}); first {
				fail(err)
				return
			}
			op.log.Error("Hooks that are new are not asked", "error", err.Error())
		}
		begin(serving, &running, r.parts, trouble)
		s.waits = append(s.waits, r.wait...)
		registering, stop := context.WithCancelCause(ctx)
		var registrars sync.WaitGroup
		now := r
		registrars.Go(func() { now.register(registering, trouble) })
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

// begin runs parts beside each other.
func begin(ctx context.Context, group *sync.WaitGroup, parts []part, trouble func(error)) {
	for _, p := range parts {
		group.Go(func() {
			if err := p(ctx); err != nil && ctx.Err() == nil {
				trouble(err)
			}
		})
	}
}

// register waits until the hooks can answer, puts their handlers in place and leads callers there until ctx ends.
func (r *renewal) register(ctx context.Context, trouble func(error)) {
	for _, o := range r.services {
		if err := service.Ensure(ctx, o); err != nil {
			if ctx.Err() == nil {
				trouble(err)
			}
			return
		}
	}
	if !reached(ctx, r.ready...) {
		return
	}
	for _, swap := range r.swap {
		swap()
	}
	var registrars sync.WaitGroup
	defer registrars.Wait()
	begin(ctx, &registrars, r.registrars, trouble)
}

// renewals are those of all servers.
type renewals struct {
	op             *operator
	webhooks, http *renewal
}

// prepareServers does all for a new set of hooks that can fail.
func (op *operator) prepareServers(ctx context.Context, hooks []*hook.Hook) (*renewals, error) {
	r := &renewals{op: op}
	var err, errHTTP error
	r.webhooks, err = op.webhooks.prepare(ctx, hooks)
	now := make(chan struct{}) // handlers are put in place when their hooks can answer
	close(now)
	r.http, errHTTP = op.http.prepare(hooks, now)
	if err := errors.Join(err, errHTTP); err != nil {
		r.abort()
		return nil, err
	}
	return r, nil
}

// abort gives everything back.
func (r *renewals) abort() {
	r.webhooks.abort()
	r.http.abort()
}

// commit hands the renewals over. The new handlers take over when ready is closed.
func (r *renewals) commit(ready <-chan struct{}) {
	r.webhooks.ready = append(r.webhooks.ready, ready)
	r.http.ready = append(r.http.ready, ready)
	r.op.webhooks.renew(r.webhooks)
	r.op.http.renew(r.http)
}

// servingError ends the operator: hooks that are meant to be asked would not be asked.
type servingError struct {
	what string
	err  error
}

func (e *servingError) Error() string { return fmt.Sprintf("cannot serve %s: %v", e.what, e.err) }
func (e *servingError) Unwrap() error { return e.err }

// reached waits for channels to be closed, and tells whether that came before the end of ctx.
func reached(ctx context.Context, all ...<-chan struct{}) bool {
	for _, c := range all {
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
