// Package webhook runs the servers of webhooks and of HTTP hooks: listeners, certificates, Services and registration.
//
// Callers may rely on this:
//   - A webhook is registered only while a server is behind its address, when its hook is ready. A hook that waits holds up no other.
//   - Servers are created when a hook needs one, with certificates and Services, and stay until the end.
//   - The set of hooks is replaced as a whole, in two phases: Prepare does what can fail, without an effect on the active set; Commit
//     cannot fail. A request is answered by the set with which it began. The previous version of a hook answers until the new one is ready.
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
	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/kube"
	httphooks "github.com/shell-operator/shell-operator/internal/source/http"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
)

// Options of Servers. All but Ready and ReadyChanged are required.
type Options struct {
	Cluster  *kube.Cluster
	Webhooks WebhookOptions
	HTTP     HTTPOptions
	// Hooks are the first set. LeftOut are the names of hooks that it lacks because they are broken: their webhooks stay registered.
	Hooks   []*hook.Hook
	LeftOut []string
	// Ready reports whether a hook can answer; nil means that all can. ReadyChanged returns a channel that is closed when that changes; nil
	// means never.
	Ready        func(*hook.Hook) bool
	ReadyChanged func() <-chan struct{}
	// Leading is closed when this replica is the leader. Only the leader registers a URL, which belongs to one replica.
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
	// DryRun makes Uninstall log what it would do.
	DryRun bool
	Log    *slog.Logger

	// intake bounds the requests of all ports.
	intake *httpserver.Intake
}

// Servers are those of webhooks and of HTTP hooks, as far as hooks have needed them.
type Servers struct {
	webhooks *webhooks
	http     *httpServer
}

// New listens for the hooks that need it. Before Run nothing is registered.
func New(ctx context.Context, o Options) (*Servers, error) {
	o.intake = httpserver.NewIntake(int64(o.Webhooks.BodyBudget))
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

// Run serves until ctx ends. Errors of the first set are reported to fail, as an *Error; those of later sets are logged.
func (s *Servers) Run(ctx context.Context, fail context.CancelCauseFunc) {
	var sides sync.WaitGroup
	sides.Go(func() { s.webhooks.run(ctx, fail) })
	sides.Go(func() { s.http.run(ctx, fail) })
	sides.Wait()
}

// Renewal is a prepared set of hooks. Either Abort or Commit must be called.
type Renewal struct {
	servers        *Servers
	webhooks, http *renewal
}

// Prepare does what can fail for a new set of hooks, and the names of those that are left out of it. An error has no effect on the active
// set.
func (s *Servers) Prepare(ctx context.Context, hooks []*hook.Hook, leftOut []string) (*Renewal, error) {
	r := &Renewal{servers: s}
	var err, errHTTP error
	r.webhooks, err = s.webhooks.prepare(ctx, hooks, leftOut)
	r.http, errHTTP = s.http.prepare(hooks)
	if err := errors.Join(err, errHTTP); err != nil {
		r.Abort()
		return nil, err
	}
	return r, nil
}

// Abort releases what Prepare has created.
func (r *Renewal) Abort() {
	r.webhooks.abort()
	r.http.abort()
}

// Commit activates the set, hook by hook: earlier versions answer until ready is closed, unless theirs is ready. Retired is called when no
// request of an earlier set is in flight, and never after Run has returned.
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

// Error is the error of hooks that cannot be served.
type Error struct {
	what string
	err  error
}

func (e *Error) Error() string { return fmt.Sprintf("cannot serve %s: %v", e.what, e.err) }
func (e *Error) Unwrap() error { return e.err }
