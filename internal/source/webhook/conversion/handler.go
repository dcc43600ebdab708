package conversion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// Results of reviews: refused by a failedMessage of a hook, or failed for any other reason.
const (
	ResultConverted = "converted"
	ResultRefused   = "refused"
	ResultFailed    = "failed"
)

// Meter counts reviews. It may be called concurrently.
type Meter interface {
	// ConversionReviewed is called for each review of a known CRD with its result, except for those whose client has
	// disconnected.
	ConversionReviewed(crd, result string, took time.Duration)
}

// Options of a Handler. Hooks, Runner and Log are required.
type Options struct {
	// Hooks in their order: of equally short paths, the first declared one is used.
	Hooks  []*hook.Hook
	Runner Runner
	Meter  Meter
	// Parallel limits the reviews in flight, by default twice the number of processors and at least 4.
	Parallel int
	// Queue limits the reviews waiting, by default 100; further ones are rejected.
	Queue int
	// MaxBytes limits the size of a review, by default 100 MiB: the API server sends whole lists.
	MaxBytes int64
	// Timeout is the time limit of reviews without one, by default 30 s, the maximum of the API server.
	Timeout time.Duration
	// AllEffects applies the operations and metrics of hooks for unknown callers, too.
	AllEffects bool
	Log        *slog.Logger
}

func (o *Options) setDefaults() {
	if o.Parallel == 0 {
		o.Parallel = max(4, 2*runtime.GOMAXPROCS(0))
	}
	if o.Queue == 0 {
		o.Queue = 100
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 100 << 20
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
}

type noMeter struct{}

func (noMeter) ConversionReviewed(string, string, time.Duration) {}

// Handler answers reviews at POST /<name of the CRD>, and GET /healthz.
type Handler struct {
	opts    Options
	steps   map[string][]step
	limiter *httpserver.Limiter
	// reads bounds the reviews that are being read, before they enter the limiter.
	reads *httpserver.BodyReads
	mux   *http.ServeMux
	// logged suppresses equal failures: an API server that cannot convert what it stores retries ten times a second per
	// version.
	logged logonce.Dedup
}

var _ http.Handler = (*Handler)(nil)

// NewHandler returns a Handler.
func NewHandler(o Options) *Handler {
	o.setDefaults()
	h := &Handler{
		opts: o, steps: stepsByCRD(o.Hooks), limiter: httpserver.NewLimiter(o.Parallel, o.Queue),
		reads: httpserver.NewBodyReads(o.Parallel + o.Queue), mux: http.NewServeMux(), logged: logonce.Dedup{Every: time.Minute},
	}
	h.mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	h.mux.HandleFunc("POST /{crd}", h.review)
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// review answers one review. The API server passes the message of a failed conversion on to its user, but no other
// status: those are for other clients.
func (h *Handler) review(w http.ResponseWriter, r *http.Request) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		http.Error(w, "send application/json", http.StatusUnsupportedMediaType)
		return
	}
	start, crd := time.Now(), r.PathValue("crd")
	_, known := h.steps[crd]
	// A deadline in the past ends a blocked read.
	reading := h.reads.Begin(func() { _ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) })
	rv, err := readReview(http.MaxBytesReader(w, r.Body, h.opts.MaxBytes))
	aborted := reading.End()
	large := (*http.MaxBytesError)(nil)
	switch {
	case aborted && err != nil:
		h.log("", "", "slow", fmt.Errorf("a review from %s that arrived too slowly was aborted in favour of others: restrict the clients of this port with --conversion-webhook-client-ca or a NetworkPolicy", r.RemoteAddr))
		http.Error(w, "too many reviews are being sent", http.StatusServiceUnavailable)
		return
	case err == nil && rv.Request == nil:
		http.Error(w, "Missing parameters: request", http.StatusBadRequest)
		return
	case errors.As(err, &large) && rv.Request != nil && rv.Request.UID != "":
		err = &failure{message: fmt.Sprintf("The review has more than %d bytes, the limit of the operator: use smaller pages (kubectl --chunk-size)", large.Limit)}
	case err != nil:
		h.unreadable(w, crd, err)
		return
	case !h.limiter.Enter():
		err = &failure{message: fmt.Sprintf("The operator is busy with %d conversions, and %d more wait: try again later", h.opts.Parallel, h.opts.Queue)}
	default:
		defer h.limiter.Leave()
	}
	if !known {
		// Any client can send any name; that is not worth a record each.
		_ = rv.writeFailure(w, fmt.Sprintf("No hook converts %q", crd))
		return
	}
	var objects []object
	if err == nil {
		objects, err = h.convert(r, rv)
	}
	if r.Context().Err() != nil {
		h.opts.Log.Info("The API server no longer waits for the answer", "crd", crd, "uid", rv.Request.UID)
		return
	}
	f := (*failure)(nil)
	if !errors.As(err, &f) {
		h.opts.Meter.ConversionReviewed(crd, ResultConverted, time.Since(start))
		_ = rv.writeSuccess(w, objects) // an error means that the client has disconnected
		return
	}
	h.log(crd, rv.Request.UID, f.message, f)
	result := ResultFailed
	if f.refused {
		result = ResultRefused
	}
	h.opts.Meter.ConversionReviewed(crd, result, time.Since(start))
	_ = rv.writeFailure(w, f.message)
}

// unreadable rejects a body that is no review.
func (h *Handler) unreadable(w http.ResponseWriter, crd string, err error) {
	status, text := http.StatusBadRequest, "Invalid JSON payload"
	if errors.As(err, new(*http.MaxBytesError)) {
		status, text = http.StatusRequestEntityTooLarge, "The review is too large"
	}
	if _, known := h.steps[crd]; !known {
		crd = "" // or clients could fill the log with names
	}
	h.log(crd, "", text, fmt.Errorf("cannot read the review: %w", err))
	http.Error(w, text, status)
}

// log logs a failure, and repeats equal ones once a minute.
func (h *Handler) log(crd, uid, message string, reason error) {
	suppressed, due := h.logged.Due(crd+" "+message, "")
	if !due {
		return
	}
	fields := []any{"crd", crd, "uid", uid, "error", reason.Error()}
	if suppressed > 0 {
		fields = append(fields, "again", suppressed)
	}
	h.opts.Log.Error("conversion failed", fields...)
}

// convert returns the objects of a review in the desired version. An error is a *failure.
func (h *Handler) convert(r *http.Request, rv *review) (_ []object, err error) {
	crd := r.PathValue("crd")
	c := &conversion{crd: crd, steps: h.steps[crd], review: rv, noEffects: !h.opts.AllEffects && !httpserver.Known(r.Context())}
	if c.objects, err = readObjects(rv.Request.Objects); err != nil {
		return nil, c.failed(err.Error())
	}
	todo, err := c.check()
	if err != nil || !todo {
		return c.objects, err
	}
	h.opts.Log.Info("Handle kubernetesCustomResourceConversion event for crd",
		"crd", crd, "uid", rv.Request.UID, "len", len(c.objects), "versions", strings.Join(c.versions(), ","), "desired", rv.Request.Desired)
	limit := h.timeLimit(r)
	ctx, cancel := context.WithTimeoutCause(r.Context(), limit, lateError(limit))
	defer cancel()
	if h.limiter.Start(ctx) != nil {
		return nil, &failure{message: "The conversion waited too long for others", cause: context.Cause(ctx)}
	}
	defer h.limiter.Finish()
	defer func() {
		if p := recover(); p != nil {
			err = &failure{message: "The operator has a bug: see its log", cause: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	err = c.run(ctx, h.opts.Runner)
	return c.objects, err
}

// timeLimit is how long a review may take: a little less than the timeout of the API server, which then gets the reason.
func (h *Handler) timeLimit(r *http.Request) time.Duration {
	limit := h.opts.Timeout
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		limit = min(limit, asked)
	}
	return limit - min(limit/10, time.Second)
}
