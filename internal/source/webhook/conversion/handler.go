package conversion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	Hooks []*hook.Hook
	// Ready reports whether a hook can answer; nil means that all can.
	Ready  func(*hook.Hook) bool
	Runner Runner
	Meter  Meter
	// Parallel limits the reviews in flight per CRD, by default twice the number of processors and at least 4.
	Parallel int
	// Queue limits the reviews waiting per CRD, by default 100; further ones are rejected.
	Queue int
	// Intake bounds the bodies of all Handlers that share it; nil means one for this Handler.
	Intake *httpserver.Intake
	// MaxBytes limits the size of a review, by default 100 MiB: the API server sends whole lists.
	MaxBytes int64
	// Timeout is the time limit of reviews without one, by default 30 s, the maximum of the API server.
	Timeout time.Duration
	Log     *slog.Logger
}

func (o *Options) setDefaults() {
	o.Parallel = cmp.Or(o.Parallel, max(4, 2*runtime.GOMAXPROCS(0)))
	o.Queue = cmp.Or(o.Queue, 100)
	o.MaxBytes = cmp.Or(o.MaxBytes, 100<<20)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	if o.Intake == nil {
		o.Intake = httpserver.NewIntake(0)
	}
	if o.Ready == nil {
		o.Ready = func(*hook.Hook) bool { return true }
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
}

type noMeter struct{}

func (noMeter) ConversionReviewed(string, string, time.Duration) {}

// Handler answers reviews at POST /<name of the CRD>, and GET /healthz.
type Handler struct {
	opts  Options
	steps map[string][]step
	// limiters bound the reviews of one CRD.
	limiters map[string]*httpserver.Limiter
	mux      *http.ServeMux
	// logged suppresses equal failures: an API server that cannot convert what it stores retries ten times a second per
	// version.
	logged logonce.Dedup
}

var _ http.Handler = (*Handler)(nil)

// NewHandler returns a Handler.
func NewHandler(o Options) *Handler {
	o.setDefaults()
	h := &Handler{
		opts: o, steps: stepsByCRD(o.Hooks), limiters: map[string]*httpserver.Limiter{},
		mux: http.NewServeMux(), logged: logonce.Dedup{Every: time.Minute},
	}
	for crd := range h.steps {
		h.limiters[crd] = o.Intake.Limiter(o.Parallel, o.Queue)
	}
	h.mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	h.mux.HandleFunc("POST /{crd}", h.review)
	return h
}

// Answers reports whether the handler has hooks for the CRD of a request, and whether they are all ready.
func (h *Handler) Answers(r *http.Request) (known, ready bool) {
	steps, known := h.steps[strings.TrimPrefix(r.URL.Path, "/")]
	return known, known && waiting(steps, h.opts.Ready) == nil
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// review answers one review. The API server passes the message of a failed conversion on to its user, but no other
// status: those are for other clients, and for too many reviews, which are not read.
func (h *Handler) review(w http.ResponseWriter, r *http.Request) {
	start, crd := time.Now(), r.PathValue("crd")
	limiter := h.limiters[crd]
	if limiter == nil {
		// Any client can send any name; that is not worth a record each.
		http.Error(w, "no hook converts this", http.StatusNotFound)
		return
	}
	if !httpserver.IsJSON(r) {
		http.Error(w, "send application/json", http.StatusUnsupportedMediaType)
		return
	}
	limit := httpserver.TimeLimit(r, h.opts.Timeout, h.opts.Timeout)
	ctx, cancel := context.WithTimeoutCause(r.Context(), limit, lateError(limit))
	defer cancel()
	entered := limiter.Enter()
	if entered == nil {
		text := fmt.Sprintf("The operator is busy with %d conversions of this CRD, and %d more wait: try again later", h.opts.Parallel,
			h.opts.Queue)
		h.log(crd, "", text, errors.New(text))
		h.opts.Meter.ConversionReviewed(crd, ResultFailed, time.Since(start))
		http.Error(w, text, http.StatusServiceUnavailable)
		return
	}
	defer entered.Leave()
	rv, err := h.read(ctx, w, r, entered)
	large := (*http.MaxBytesError)(nil)
	switch {
	case ctx.Err() != nil && rv == nil:
		h.log(crd, "", "memory", errors.New("a review was refused, no memory was free for it in time: raise --body-budget"))
		http.Error(w, "too many reviews are being sent", http.StatusServiceUnavailable)
		return
	case err == nil && rv.Request == nil:
		http.Error(w, "Missing parameters: request", http.StatusBadRequest)
		return
	case errors.As(err, &large) && rv.Request != nil && rv.Request.UID != "":
		err = &failure{message: fmt.Sprintf("The review has more than %d bytes, the limit of the operator: use smaller pages (kubectl "+
			"--chunk-size)", large.Limit)}
	case err != nil:
		h.unreadable(w, crd, err)
		return
	}
	var objects []object
	if by := waiting(h.steps[crd], h.opts.Ready); by != nil && err == nil {
		err = &failure{message: fmt.Sprintf("The hook %q is not ready yet: try again later", by.Name)}
	}
	if err == nil {
		objects, err = h.convert(ctx, r, rv, entered)
	}
	if r.Context().Err() != nil {
		h.opts.Log.Info("The API server no longer waits for the answer", "crd", crd, "uid", httpserver.Text(rv.Request.UID))
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

// read reads a review while its bytes are free. Without them it returns none.
func (h *Handler) read(ctx context.Context, w http.ResponseWriter, r *http.Request, entered *httpserver.Request) (*review, error) {
	size := httpserver.Size(r, h.opts.MaxBytes)
	if err := entered.Reserve(ctx, size); err != nil {
		return nil, err
	}
	return readReview(http.MaxBytesReader(w, r.Body, size))
}

// unreadable rejects a body that is no review.
func (h *Handler) unreadable(w http.ResponseWriter, crd string, err error) {
	status, text := http.StatusBadRequest, "Invalid JSON payload"
	if errors.As(err, new(*http.MaxBytesError)) {
		status, text = http.StatusRequestEntityTooLarge, "The review is too large"
	}
	h.log(crd, "", text, fmt.Errorf("cannot read the review: %s", httpserver.Text(err.Error())))
	http.Error(w, text, status)
}

// log logs a failure, and repeats equal ones once a minute.
func (h *Handler) log(crd, uid, message string, reason error) {
	suppressed, due := h.logged.Due(crd+" "+message, "")
	if !due {
		return
	}
	fields := []any{"crd", crd, "uid", httpserver.Text(uid), "error", reason.Error()}
	if suppressed > 0 {
		fields = append(fields, "again", suppressed)
	}
	h.opts.Log.Error("conversion failed", fields...)
}

// convert returns the objects of a review in the desired version. An error is a *failure.
func (h *Handler) convert(ctx context.Context, r *http.Request, rv *review, entered *httpserver.Request) (_ []object, err error) {
	crd := r.PathValue("crd")
	c := &conversion{crd: crd, steps: h.steps[crd], review: rv}
	if c.objects, err = readObjects(rv.Request.Objects); err != nil {
		return nil, c.failed(err.Error())
	}
	if _, todo, err := c.next(); err != nil || len(todo) == 0 {
		return c.objects, err
	}
	h.opts.Log.Info("Handle kubernetesCustomResourceConversion event for crd",
		"crd", crd, "uid", rv.Request.UID, "len", len(c.objects), "versions", strings.Join(c.versions(), ","), "desired", rv.Request.Desired)
	if entered.Start(ctx) != nil {
		return nil, &failure{message: "The conversion waited too long for others", cause: context.Cause(ctx)}
	}
	defer entered.Finish()
	defer func() {
		if p := recover(); p != nil {
			err = &failure{message: "The operator has a bug: see its log", cause: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	err = c.run(ctx, h.opts.Runner)
	return c.objects, err
}
