// Package webhook runs the servers of webhooks and of HTTP hooks: listeners, certificates, Services and registration.
//
// Callers may rely on this:
//   - A webhook is registered only while a server is behind its address, when its hook is ready. A hook that waits holds up no other.
//   - Servers are created when a hook needs one, with certificates and Services, and stay until the end.
//   - The set of hooks is replaced as a whole, in two phases: Prepare does what can fail, without an effect on the active set; Commit
//     cannot fail. A request is answered by the set with which it began.
//   - Path by path, an earlier version answers until the new one is ready, without a limit, and while API servers call what no hook has any
//     more. It has only the hooks for that.
//   - Run returns when all requests have been answered.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/kube"
	httphooks "github.com/shell-operator/shell-operator/internal/source/http"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/cert"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
)

// Options of Servers. All are required.
type Options struct {
	Cluster  *kube.Cluster
	Webhooks WebhookOptions
	HTTP     HTTPOptions
	// Ports has addresses for the first set. It is not used when New has returned.
	Ports httpserver.Ports
	// Hooks are the first set.
	Hooks []*hook.Hook
	// Ready reports whether a binding can answer, Stuck why bindings of a hook do not become ready by themselves. ReadyChanged returns a
	// channel that is closed when that changes.
	Ready        func(*hook.Hook, hook.Address) bool
	Stuck        func(*hook.Hook) string
	ReadyChanged func() <-chan struct{}
	// Converted receives a CRD whose spec.conversion this process has changed.
	Converted func(crd string)
	// Leading is closed when this replica is the leader, or there is none. Only the leader registers: a replica with other hooks, or another
	// URL, would overwrite what it has registered.
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

	// intake bounds the requests of the API server, httpIntake the requests of HTTP clients, which decide how fast they send.
	intake, httpIntake *httpserver.Intake
	// connections are those of both servers of webhooks: each concurrent review of an API server has one.
	connections *httpserver.Connections
}

// needed is what hooks have needed so far. It stays then.
type needed struct {
	admission, conversion *served
	http                  *servedHTTP
	// shared are the certificates in the Secret, for all servers behind Services.
	shared *cert.Source
	// pathFile is the secret of paths in a file.
	pathFile *cert.Source
}

// Servers serve webhooks and HTTP hooks, as far as hooks have needed them.
type Servers struct {
	o      Options
	client rest.Interface
	needed
	// registrations are those in the cluster, unserved are the servers of new hooks.
	registrations, unserved registrations
	// converted are CRDs that hooks of prepared sets convert.
	converted map[string]bool

	first *Renewal
	next  chan *Renewal
	ended chan struct{}
	// changed has a signal when paths are registered, or are not any more, and when a renewal is activated.
	changed chan struct{}
	// admits, converts and serves are the handlers of the servers.
	admits, converts, serves replaceable
	// retired is that of the last renewal.
	retired atomic.Pointer[func()]
}

// bodyBudget is the number of bytes that the bodies of all reviews have together in memory; those for HTTP hooks have a quarter of it.
const bodyBudget = 64 << 20

// New listens for the hooks that need it. Requests get 503 until their hook is ready. Before Run nothing is registered.
func New(ctx context.Context, o Options) (*Servers, error) {
	o.intake, o.httpIntake = httpserver.NewIntake(bodyBudget), httpserver.NewIntake(bodyBudget/4)
	o.connections = httpserver.NewConnections(1000, o.Log)
	client, err := kube.NewClient(o.Cluster.Config)
	if err != nil {
		return nil, err
	}
	s := &Servers{o: o, client: client, admits: replaceable{lingers: true}, converted: map[string]bool{},
		next: make(chan *Renewal), ended: make(chan struct{}), changed: make(chan struct{}, 1)}
	if s.first, err = s.Prepare(ctx, o.Hooks); err != nil {
		return nil, err
	}
	s.o.Ports = nil
	s.retired.Store(new(func() {}))
	s.first.activate()
	return s, nil
}

// Prepare does what can fail for a new set of hooks. An error has no effect on the active
// set. Otherwise either Abort or Commit must be called.
func (w *Servers) Prepare(ctx context.Context, hooks []*hook.Hook) (*Renewal, error) {
	r := &Renewal{servers: w, before: w.needed}
	if err := errors.Join(w.prepareWebhooks(ctx, r, hooks), w.prepareHTTP(r, hooks)); err != nil {
		r.Abort()
		return nil, err
	}
	return r, nil
}

// Error is the error of hooks that cannot be served.
type Error struct {
	what string
	err  error
}

func (e *Error) Error() string { return fmt.Sprintf("cannot serve %s: %v", e.what, e.err) }
func (e *Error) Unwrap() error { return e.err }
