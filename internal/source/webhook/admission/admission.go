// Package admission lets hooks review what is about to be written to the cluster.
//
// Callers may rely on this:
//   - Each binding has a path of its own, which says its kind and its hook. It stays the same from start to start.
//   - A review reaches the hook as the bytes that arrived.
//   - The API server gets an answer before it gives up, and no run outlives the request by more than it takes to end a
//     hook. When the caller hangs up, the run ends.
//   - What a hook decides is what the API server is told. A hook that decides nothing (it crashes, takes too long, or
//     what it wrote makes no sense) denies, unless its failure policy is Ignore: then the request passes, with a warning
//     for whoever made it.
//   - Logs and answers have no content of objects, but for what the hook itself wants to say to the user.
//   - The webhook configurations in the cluster are what the bindings say, also after somebody has edited or deleted
//     them, and in the order of the hooks, because mutating webhooks are called in order.
//
// Handler answers reviews, Registrar keeps the configurations. Neither listens, and certificates are somebody else's.
//
// Not attempted: applying patches to see whether they fit. The API server does so, and says what does not.
package admission

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// Runner runs a hook for a review.
type Runner interface {
	// Admit runs the hook for its binding number index of type typ (Validating or Mutating), outside of all queues. The
	// review is an AdmissionReview as the API server sent it. When ctx ends, the run has to end too. A nil answer means
	// that the hook ended well and wrote none.
	Admit(ctx context.Context, h *hook.Hook, typ event.Type, index int, review []byte) (*effect.AdmissionAnswer, error)
}

// Options of a Handler. Runner and Log are required.
type Options struct {
	Hooks  []*hook.Hook
	Runner Runner
	Log    *slog.Logger
	// Parallel is how many reviews one hook does at a time; 0 means 16. Slots belong to hooks, so that one slow hook
	// does not take those of the others.
	Parallel int
	// Queue is how many more reviews may wait for one hook; 0 means 256. Any beyond are refused at once, and the API
	// server does as its failure policy says. The API server has some 600 requests in flight at most.
	Queue int
	// DefaultFailurePolicy is that of validating bindings which say none: "Fail" (also when empty) or "Ignore".
	// That of mutating ones is always Fail.
	DefaultFailurePolicy string
}

func (o *Options) setDefaults() {
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	if o.Queue <= 0 {
		o.Queue = 256
	}
}

// Handler answers admission reviews. It is safe for concurrent use.
type Handler struct {
	opts     Options
	webhooks map[string]*webhook // by path
	// slots limit the reviews of one hook.
	slots map[*hook.Hook]*httpserver.Limiter
	// strangers limits the records about paths that belong to no binding, for anybody may send such requests.
	strangers *rate.Limiter
	// readings are the reviews that are still on their way, before they take slots. slow limits the records about those
	// that take too long.
	readings *httpserver.BodyReads
	slow     *rate.Limiter
	runs     sync.WaitGroup
}

// New returns a Handler for the admission bindings of all hooks. It fails when two of them cannot be told apart.
func New(o Options) (*Handler, error) {
	o.setDefaults()
	all, err := plan(o.Hooks, o.DefaultFailurePolicy)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		opts: o, webhooks: byPath(all), slots: map[*hook.Hook]*httpserver.Limiter{},
		strangers: rate.NewLimiter(rate.Every(time.Minute), 3),
		readings:  httpserver.NewBodyReads(o.Parallel + o.Queue), slow: rate.NewLimiter(rate.Every(time.Minute), 3),
	}
	for _, w := range all {
		if h.slots[w.hook] == nil {
			h.slots[w.hook] = httpserver.NewLimiter(o.Parallel, o.Queue)
		}
	}
	return h, nil
}

// Wait returns when all runs have ended. It is to be called when no more requests come, after the server's shutdown:
// a run may end later than its request.
func (h *Handler) Wait() { h.runs.Wait() }
