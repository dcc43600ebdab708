// Package http lets hooks answer HTTP requests.
//
// Callers may rely on this:
//   - A request runs at most one hook, once. The order of hooks does not matter for routing.
//   - Waiting is bounded: each request has a time limit, each hook a limit of requests in flight and of requests waiting.
//     Further requests are rejected immediately.
//   - A run ends at its request's time limit, or when the client disconnects.
//   - With an Access, clients must be authenticated for any response and authorized for a run. Without one, cross-site
//     requests of browsers and requests for other host names are rejected.
//   - Authorization, cookies and headers that the binding does not name never reach a hook. A path value is one non-empty
//     segment.
//   - The operator's own responses expose no internals; the log has the reason under the same id. The log has no paths,
//     queries and bodies.
//
// Handler serves requests, Access authenticates clients. Neither listens.
//
// docs/reference/http-hooks.md has the rules.
package http

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// Runner runs a hook for a request.
type Runner interface {
	// Answer runs the hook for its binding number index, outside all queues, until ctx ends. Errors that are ErrBusy or ErrLate
	// have a status of their own; all others are failures of the hook.
	Answer(ctx context.Context, h *hook.Hook, index int, r *event.Request) (effect.HTTPAnswer, error)
}

var (
	// ErrBusy is the error of a hook that cannot run before the request's deadline.
	ErrBusy = errors.New("the hook is busy")
	// ErrLate is the error of a hook that exceeded its own time limit.
	ErrLate = errors.New("the hook took too long")
)

// Options of a Handler. Runner and Log are required.
type Options struct {
	Hooks  []*hook.Hook
	Runner Runner
	// Ready reports whether a binding can answer; nil means that all can.
	Ready func(*hook.Hook, hook.Address) bool
	// Access authenticates and authorizes clients; nil trusts every client, for loopback.
	Access *Access
	// As is the user of every request when there is no Access, for tests of hooks: only "allow" of the binding restricts it.
	As  *event.User
	Log *slog.Logger
	// Limits are by hook; nil means some.
	Limits *httpserver.Limits
	// BodyLimit is the size limit of bodies; 0 means 1 MiB.
	BodyLimit int64
}

func (o *Options) setDefaults() {
	if o.Ready == nil {
		o.Ready = func(*hook.Hook, hook.Address) bool { return true }
	}
	o.Limits = cmp.Or(o.Limits, httpserver.NewIntake(0).Limits(16, 32))
	o.BodyLimit = cmp.Or(o.BodyLimit, 1<<20)
}

// Handler serves requests. It is safe for concurrent use.
type Handler struct {
	opts   Options
	routes table
	*httpserver.Limits
	origins *http.CrossOriginProtection
}

// New returns a Handler for the HTTP bindings of all hooks.
func New(o Options) *Handler {
	o.setDefaults()
	return &Handler{opts: o, routes: newTable(o.Hooks), Limits: o.Limits, origins: http.NewCrossOriginProtection()}
}
