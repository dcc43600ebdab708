package webhook

import (
	"context"
	"sync"

	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/cert"
)

// part runs until its context ends.
type part struct {
	// what names it in errors.
	what string
	run  func(context.Context) error
}

const (
	webhooks  = "webhooks"
	httpHooks = "HTTP hooks"
)

// Renewal is a prepared set of hooks, and what is needed to activate it.
type Renewal struct {
	servers *Servers
	// parts are new servers and certificates.
	parts []part
	// registrars register the servers.
	registrars []part
	handlers   []placed
	// retired, if set, is called when no request of earlier handlers is in flight.
	retired func()
	// ready, if set, is closed when all hooks are ready for requests.
	ready <-chan struct{}
	// opened are the new servers, until they run; before is what earlier hooks needed.
	opened []*httpserver.Server
	before needed
}

// placed is a new handler, and where it replaces another one.
type placed struct {
	at      *replaceable
	handler answerer
}

// Abort releases what Prepare has created.
func (r *Renewal) Abort() {
	for _, s := range r.opened {
		_ = s.Close()
	}
	r.servers.needed = r.before
}

// Commit activates the set, hook by hook: earlier versions answer until ready is closed, unless theirs is ready. Retired is called when no
// request of an earlier set is in flight, and never after Run has returned.
func (r *Renewal) Commit(ready <-chan struct{}, retired func()) {
	r.ready, r.retired = ready, retired
	select {
	case r.servers.next <- r:
	case <-r.servers.ended:
		r.Abort()
	}
}

// begin runs parts concurrently.
func begin(ctx context.Context, group *sync.WaitGroup, parts []part, trouble func(what string, err error)) {
	for _, p := range parts {
		group.Go(func() {
			if err := p.run(ctx); err != nil && ctx.Err() == nil {
				trouble(p.what, err)
			}
		})
	}
}

// register activates the handlers, and registers the servers until ctx ends. When all hooks are ready it ends the previous handlers, and
// calls swapped with them.
func (r *Renewal) register(ctx context.Context, swapped func(gone []*inPlace), trouble func(what string, err error)) {
	for _, p := range r.handlers {
		p.at.put(p.handler)
	}
	var registrars sync.WaitGroup
	defer registrars.Wait()
	registrars.Go(func() {
		if r.ready != nil && !kube.Wait(ctx, 0, r.ready) {
			return
		}
		var gone []*inPlace
		for _, p := range r.handlers {
			gone = append(gone, p.at.drop(p.handler)...)
		}
		swapped(gone)
	})
	begin(ctx, &registrars, r.registrars, trouble)
}

// keep adds a certificate source to the parts.
func (r *Renewal) keep(source *cert.Source, err error) (*cert.Source, error) {
	if err == nil {
		r.parts = append(r.parts, part{webhooks, source.Run})
	}
	return source, err
}
