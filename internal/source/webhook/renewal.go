package webhook

import (
	"context"
	"sync"

	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/source/webhook/cert"
)

// part runs until its context ends.
type part = func(context.Context) error

// renewal is what one side needs for a new set of hooks.
type renewal struct {
	// what names it in errors.
	what string
	// parts are new servers, and what they need.
	parts []part
	// services are those that the operator is to make, registrars lead callers to the servers.
	services   []serviceOptions
	registrars []part
	// swap puts the new handlers in place, and returns what waits for the requests at the previous ones.
	swap []func() (drain func())
	// wait returns when none of the new handlers' runs is left.
	wait []func()
	// retired, if set, is called when no request is left at the handlers before.
	retired func()
	// ready are closed when the hooks can answer.
	ready []<-chan struct{}
	// opened are the new servers, until they run, and closed forgets them.
	opened []*httpserver.Server
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
// Swapped is called in between.
func (r *renewal) register(ctx context.Context, swapped func(drain []func()), trouble func(error)) {
	for _, o := range r.services {
		if err := ensureService(ctx, o); err != nil {
			if ctx.Err() == nil {
				trouble(err)
			}
			return
		}
	}
	if !reached(ctx, r.ready...) {
		return
	}
	var drain []func()
	for _, swap := range r.swap {
		drain = append(drain, swap())
	}
	swapped(drain)
	var registrars sync.WaitGroup
	defer registrars.Wait()
	begin(ctx, &registrars, r.registrars, trouble)
}

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

// keep lets the source run beside the servers.
func (r *renewal) keep(source cert.Source, err error) (cert.Source, error) {
	if err == nil {
		r.parts = append(r.parts, source.Run)
	}
	return source, err
}
