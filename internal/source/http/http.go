// Package http lets hooks answer HTTP requests.
//
// Callers may rely on this:
//   - A request runs at most one hook, once. Which one does not depend on the order of hooks.
//   - Nobody waits without bound: each request has a time limit, each hook a number of runs at a time and of requests that
//     wait. One more is refused at once.
//   - A run ends when its request's time is over or the client has hung up.
//   - With an Access, nothing is answered to those whom it does not know, and nothing is run for those whom it does not let.
//     Without one, requests that a page of another site or another host name has caused are refused.
//   - Authorization, cookies and headers that the binding does not name stay here. A path value is one non-empty segment.
//   - What the operator itself answers says nothing of its inside; the log says why, under the same id. Paths, queries and
//     bodies are not in the log.
//
// Handler answers, Access asks the cluster who a caller is. Neither listens.
//
// docs/explanation/http-hooks.md is the design.
package http

import (
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
	// Answer runs the hook for its binding number index, outside of all queues. When ctx ends, the run has to end too.
	// Errors that are ErrBusy or ErrLate have an answer of their own, all others are the hook's failure.
	Answer(ctx context.Context, h *hook.Hook, index int, r *event.Request) (effect.HTTPAnswer, error)
}

var (
	// ErrBusy tells that the hook cannot be run within the request's time.
	ErrBusy = errors.New("the hook is busy")
	// ErrLate tells that the hook's own time limit was over.
	ErrLate = errors.New("the hook took too long")
)

// Options of a Handler. Runner, Ready and Log are required.
type Options struct {
	Hooks  []*hook.Hook
	Runner Runner
	// Ready is closed when hooks may be asked.
	Ready <-chan struct{}
	// Access tells who asks and whether they may; nil is for loopback, where nobody is asked.
	Access *Access
	Log    *slog.Logger
	// Parallel is how many requests one hook answers at a time; 0 means 16. Queue is how many more wait for it.
	Parallel, Queue int
	// BodyLimit is the size of the largest body; 0 means 1 MiB.
	BodyLimit int64
	// Timeout is for bindings that have none; 0 means 30 s.
	Timeout time.Duration
}

func (o *Options) setDefaults() {
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	if o.BodyLimit <= 0 {
		o.BodyLimit = 1 << 20
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
}

// Handler answers requests. It is safe for concurrent use.
type Handler struct {
	opts    Options
	routes  table
	gates   map[*hook.Hook]*httpserver.Limiter
	openAPI []byte
	origins *http.CrossOriginProtection
	runs    sync.WaitGroup
}

// New returns a Handler for the HTTP bindings of all hooks. It fails when two of them match the same requests.
func New(o Options) (*Handler, error) {
	o.setDefaults()
	routes, err := newTable(o.Hooks, o.Timeout)
	if err != nil {
		return nil, err
	}
	h := &Handler{opts: o, routes: routes, gates: map[*hook.Hook]*httpserver.Limiter{}, origins: http.NewCrossOriginProtection()}
	for _, r := range routes {
		if h.gates[r.hook] == nil {
			h.gates[r.hook] = httpserver.NewLimiter(o.Parallel, o.Queue)
		}
	}
	h.openAPI, err = document(routes, o.Access != nil)
	return h, err
}

// Wait returns when all runs have ended. It is to be called when no more requests come: a run may end later than its request.
func (h *Handler) Wait() { h.runs.Wait() }
