// Package serve keeps the servers at which hooks are asked: by the API server, and by HTTP clients.
//
// Callers may rely on this:
//   - Nobody is led to a server before the hooks there can answer, and nobody to one that has gone.
//   - What hooks need is there when they need it: listening, certificates, Services. It stays when they go.
//   - Hooks are replaced as a whole. Prepare does all that can fail, and nobody notices; Commit then cannot fail.
//   - Run returns when all requests have been answered.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	httphooks "github.com/shell-operator/shell-operator/internal/source/http"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
)

// Options of Servers. All are required.
type Options struct {
	Cluster  *kube.Cluster
	Webhooks WebhookOptions
	HTTP     HTTPOptions
	// Hooks are the first ones. Ready is closed when they can answer.
	Hooks []*hook.Hook
	Ready <-chan struct{}
	// Leading is closed when this replica runs the hooks of queues: then what leads to one replica leads here.
	Leading <-chan struct{}
	// Reviews runs hooks for the API server, Requests for HTTP clients.
	Reviews interface {
		admission.Runner
		conversion.Runner
	}
	Requests httphooks.Runner
	// Meter counts reviews.
	Meter interface {
		admission.Meter
		conversion.Meter
	}
	Log *slog.Logger
}

// Servers are those for webhooks and for HTTP hooks, as far as hooks have needed them.
type Servers struct {
	webhooks *webhooks
	http     *httpServer
}

// New listens for the hooks that need it. Nothing is registered, and all requests are refused, before Run and Ready.
func New(ctx context.Context, o Options) (*Servers, error) {
	webhooks, err := newWebhooks(ctx, o)
	if err != nil {
		return nil, err
	}
	http, err := newHTTPServer(o)
	if err != nil {
		webhooks.first.abort()
		return nil, err
	}
	return &Servers{webhooks, http}, nil
}

// Run serves until ctx ends. What goes wrong with the first hooks is told to fail: they are meant to be asked, and would
// not be. It is an *Error then.
func (s *Servers) Run(ctx context.Context, fail context.CancelCauseFunc) {
	var sides sync.WaitGroup
	sides.Go(func() { s.webhooks.run(ctx, fail) })
	sides.Go(func() { s.http.run(ctx, fail) })
	sides.Wait()
}

// Renewal is ready to put other hooks in the place of those that are asked. Either Abort or Commit has to be called.
type Renewal struct {
	servers        *Servers
	webhooks, http *renewal
}

// Prepare does all for a new set of hooks that can fail.
func (s *Servers) Prepare(ctx context.Context, hooks []*hook.Hook) (*Renewal, error) {
	r := &Renewal{servers: s}
	var err, errHTTP error
	r.webhooks, err = s.webhooks.prepare(ctx, hooks)
	now := make(chan struct{}) // handlers are put in place when their hooks can answer
	close(now)
	r.http, errHTTP = s.http.prepare(hooks, now)
	if err := errors.Join(err, errHTTP); err != nil {
		r.Abort()
		return nil, err
	}
	return r, nil
}

// Abort gives everything back.
func (r *Renewal) Abort() {
	r.webhooks.abort()
	r.http.abort()
}

// Commit hands the renewal over. The new handlers take over when ready is closed. Retired is called when no request is left
// that hooks of an earlier set answer, and never after Run has returned.
func (r *Renewal) Commit(ready <-chan struct{}, retired func()) {
	var sides atomic.Int32
	each := func() {
		if sides.Add(1) == 2 {
			retired()
		}
	}
	r.webhooks.retired, r.http.retired = each, each
	r.webhooks.ready = append(r.webhooks.ready, ready)
	r.http.ready = append(r.http.ready, ready)
	r.servers.webhooks.renew(r.webhooks)
	r.servers.http.renew(r.http)
}

// Error tells that hooks which are meant to be asked cannot be.
type Error struct {
	what string
	err  error
}

func (e *Error) Error() string { return fmt.Sprintf("cannot serve %s: %v", e.what, e.err) }
func (e *Error) Unwrap() error { return e.err }
