// Package admission lets hooks review objects before they are written to the cluster.
//
// Callers may rely on this:
//   - Each binding has its own path, made of its kind and its hook, which is the same after each start.
//   - A hook receives the review as the bytes that arrived.
//   - The API server gets an answer before its timeout, and no run outlives its request by more than it takes to end a
//     process. A run ends when its client disconnects.
//   - The hook decides. A hook without a valid answer (it crashes, exceeds the timeout, or writes something invalid)
//     denies, unless its failure policy is Ignore: then the request is allowed with a warning for its user. Either way the
//     run and the review count as failed.
//   - A patch that does not apply to the reviewed object is no valid answer: the API server would reject the request without
//     the name of the hook.
//   - Logs and answers contain nothing of the objects, except what the hook itself says to the user.
//   - The webhook configurations in the cluster match the bindings, also after someone edits or deletes them, and keep
//     the order of the hooks, because the API server calls mutating webhooks in order.
//
// Handler answers reviews, Registrar keeps the configurations. Neither listens nor makes certificates.
package admission

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// Review is one review for a hook.
type Review struct {
	event.Review
	// Judge returns the verdict that the API server gets for an answer (nil: the hook wrote none) or for the error of a run.
	// An error means that the hook has failed.
	Judge func(answer *effect.AdmissionAnswer, err error) (verdict string, failure error)
}

// Runner runs a hook for a review.
type Runner interface {
	// Admit runs the hook outside all queues until ctx ends, and logs failures. It returns an answer that Judge accepts.
	Admit(ctx context.Context, r Review) (*effect.AdmissionAnswer, error)
}

// Results of reviews. A review has failed if the hook gave no verdict, whatever its failure policy makes of that.
const (
	ResultAllowed = "allowed"
	ResultDenied  = "denied"
	ResultFailed  = "failed"
)

// Meter counts reviews. It may be called concurrently.
type Meter interface {
	// AdmissionReviewed is called for each review of a known binding with its result, except for those whose client has
	// disconnected.
	AdmissionReviewed(hook, binding, result string, took time.Duration)
	// UnknownPath counts a review for a hook that another replica may have.
	UnknownPath(server string)
}

// Options of a Handler. Runner and Log are required.
type Options struct {
	Hooks []*hook.Hook
	// Ready reports whether a binding can answer; nil means that all can. Reviews for others get 503: the failure policy decides.
	Ready  func(*hook.Hook, hook.Address) bool
	Runner Runner
	Meter  Meter
	Log    *slog.Logger
	// DefaultFailurePolicy applies to validating bindings without one: "Fail" (also when empty) or "Ignore". The policy of
	// mutating bindings is always Fail.
	DefaultFailurePolicy string
	// Limits are by hook, so that a slow one does not take the slots of others; nil means some.
	Limits *httpserver.Limits
}

func (o *Options) setDefaults() {
	o.Limits = cmp.Or(o.Limits, httpserver.NewIntake(0).Limits(16, 256))
	if o.Ready == nil {
		o.Ready = func(*hook.Hook, hook.Address) bool { return true }
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
}

type noMeter struct{}

func (noMeter) AdmissionReviewed(string, string, string, time.Duration) {}
func (noMeter) UnknownPath(string)                                      {}

// Handler answers admission reviews. It is safe for concurrent use.
type Handler struct {
	opts   Options
	routes routes
	*httpserver.Limits
	// unknownPaths limits the records about paths without a binding: any client can send such requests.
	unknownPaths *rate.Limiter
}

// New returns a Handler for the admission bindings of all hooks.
func New(o Options) *Handler {
	o.setDefaults()
	return &Handler{opts: o, routes: newRoutes(plan(o.Hooks, o.DefaultFailurePolicy)), Limits: o.Limits,
		unknownPaths: rate.NewLimiter(rate.Every(time.Minute), 3)}
}
