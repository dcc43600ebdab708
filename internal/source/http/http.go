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
	"sync"
	"time"

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
	// Ready reports whether a hook can answer; nil means that all can.
	Ready func(*hook.Hook) bool
	// Access authenticates and authorizes clients; nil trusts every client, for loopback.
	Access *Access
	// As is the user of every request when there is no Access, for tests of hooks: only "allow" of the binding restricts it.
	As  *event.User
	Log *slog.Logger
	// Parallel limits the requests in flight per hook; 0 means 16. Queue limits those waiting; 0 means twice as many.
	Parallel, Queue int
	// Intake bounds the bodies of all Handlers that share it; nil means one for this Handler.
	Intake *httpserver.Intake
	// BodyLimit is the size limit of bodies; 0 means 1 MiB.
	BodyLimit int64
	// Timeout is for bindings that have none; 0 means 30 s.
	Timeout time.Duration
}

func (o *Options) setDefaults() {
	if o.Ready == nil {
		o.Ready = func(*hook.Hook) bool { return true }
	}
	o.Intake = cmp.Or(o.Intake, httpserver.NewIntake(0))
	o.Parallel = cmp.Or(o.Parallel, 16)
	o.Queue = cmp.Or(o.Queue, 2*o.Parallel)
	o.BodyLimit = cmp.Or(o.BodyLimit, 1<<20)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
}

// Handler serves requests. It is safe for concurrent use.
type Handler struct {
	opts   Options
	routes table
	// limiters bound the requests of one hook.
	limiters map[*hook.Hook]*httpserver.Limiter
	openAPI  []byte
	origins  *http.CrossOriginProtection
	runs     sync.WaitGroup
}

// New returns a Handler for the HTTP bindings of all hooks. It fails when two of them match the same requests.
func New(o Options) (*Handler, error) {
	o.setDefaults()
	routes, err := newTable(o.Hooks, o.Timeout)
	if err != nil {
		return nil, err
	}
	h := &Handler{opts: o, routes: routes, limiters: map[*hook.Hook]*httpserver.Limiter{}, origins: http.NewCrossOriginProtection()}
	for _, r := range routes {
		if h.limiters[r.hook] == nil {
			h.limiters[r.hook] = o.Intake.Limiter(o.Parallel, o.Queue)
		}
	}
	h.openAPI, err = document(routes, o.Access != nil)
	return h, err
}

// Wait returns when all runs have ended. Call it after the server's shutdown: a run may end later than its request.
func (h *Handler) Wait() { h.runs.Wait() }
