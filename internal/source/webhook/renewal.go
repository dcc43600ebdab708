package webhook

import (
	"context"
	"slices"
	"sync"

	"github.com/shell-operator/shell-operator/internal/hook"
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
	// opened are the new servers, until they run; before is what earlier hooks needed.
	opened []*httpserver.Server
	before needed
}

// placed is a new handler, and where it replaces another one.
type placed struct {
	at      *replaceable
	version *version
}

// Abort releases what Prepare has created.
func (r *Renewal) Abort() {
	for _, s := range r.opened {
		_ = s.Close()
	}
	r.servers.needed = r.before
}

// Commit activates the set, path by path: earlier versions answer until the new one is ready. Retired is called when Holds may return false
// for hooks of earlier sets, and never after Run has returned.
func (r *Renewal) Commit(retired func()) {
	r.servers.retired.Store(&retired)
	r.activate()
	select {
	case r.servers.next <- r:
	case <-r.servers.ended:
		r.Abort()
	}
}

func (r *Renewal) activate() {
	for _, p := range r.handlers {
		p.at.put(p.version)
	}
	kube.Wake(r.servers.changed)
}

// Holds reports whether requests for a hook may be answered, or are.
func (r *Renewal) Holds(h *hook.Hook) bool {
	return slices.ContainsFunc(r.servers.places(), func(at *replaceable) bool { return at.holds(h) })
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

// keep adds a certificate source to the parts.
func (r *Renewal) keep(source *cert.Source, err error) (*cert.Source, error) {
	if err == nil {
		r.parts = append(r.parts, part{webhooks, source.Run})
	}
	return source, err
}
