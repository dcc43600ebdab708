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
)

// Options of a Handler. Hooks, Runner and Log are required.
type Options struct {
	// Hooks in their order: of equally short ways the one that was declared first is taken.
	Hooks  []*hook.Hook
	Runner Runner
	// Parallel reviews run hooks at a time; by default twice as many as there are processors, and at least 4.
	Parallel int
	// Queue reviews wait at a time, by default 100. Who comes then is told at once that the operator is busy.
	Queue int
	// MaxBytes is the size of the largest review, by default 100 MiB: the API server sends whole lists.
	MaxBytes int64
	// Timeout is how long the API server waits, unless it says less: by default 30 s, which it never exceeds.
	Timeout time.Duration
	Log     *slog.Logger
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
}

// Handler answers reviews at POST /<name of the CRD>, and GET /healthz.
type Handler struct {
	opts  Options
	steps map[string][]step
	gate  *httpserver.Limiter
	// readings are the reviews that are still on their way, before they enter the gate.
	readings *httpserver.BodyReads
	mux      *http.ServeMux
	// failures are those that were logged.
	failures *failureLog
}

var _ http.Handler = (*Handler)(nil)

// NewHandler returns a Handler.
func NewHandler(o Options) *Handler {
	o.setDefaults()
	h := &Handler{opts: o, steps: stepsByCRD(o.Hooks), gate: httpserver.NewLimiter(o.Parallel, o.Queue), readings: httpserver.NewBodyReads(o.Parallel + o.Queue), mux: http.NewServeMux(), failures: newFailureLog(o.Log)}
	h.mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	h.mux.HandleFunc("POST /{crd}", h.review)
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// review answers one review. What the API server can pass on to a user is an answer with a failure; other states are
// for those who do not speak its language.
func (h *Handler) review(w http.ResponseWriter, r *http.Request) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		http.Error(w, "send application/json", http.StatusUnsupportedMediaType)
		return
	}
	// The deadline is in the past: it ends a read that waits.
	reading := h.readings.Begin(func() { _ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) })
	rv, err := readReview(http.MaxBytesReader(w, r.Body, h.opts.MaxBytes))
	if broken := reading.End(); broken && err != nil {
		h.failures.log("", "", "", fmt.Errorf("a review from %s is broken off, it came too slowly and others came: who else can reach this port? --conversion-webhook-client-ca keeps them out", r.RemoteAddr))
		http.Error(w, "too many reviews are on their way", http.StatusServiceUnavailable)
		return
	}
	if err == nil && rv.Request == nil {
		http.Error(w, "Missing parameters: request", http.StatusBadRequest)
		return
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) && rv.Request != nil && rv.Request.UID != "" {
		h.refuse(w, r, rv, nil, &failure{message: fmt.Sprintf("The review has more than %d bytes, which is all that the operator reads: ask for fewer objects at a time (kubectl --chunk-size)", large.Limit)})
		return
	}
	if err != nil {
		h.refuse(w, r, rv, err, nil)
		return
	}
	if !h.gate.Enter() {
		h.refuse(w, r, rv, nil, &failure{message: fmt.Sprintf("The operator is busy with %d conversions, and %d more wait: try again later", h.opts.Parallel, h.opts.Queue)})
		return
	}
	defer h.gate.Leave()
	if _, known := h.steps[r.PathValue("crd")]; !known {
		// Anybody who reaches us can ask for anything; that is not worth a record each.
		_ = rv.writeFailure(w, fmt.Sprintf("No hook converts %q", r.PathValue("crd")))
		return
	}
	objects, err := h.convert(r, rv)
	if err != nil {
		h.refuse(w, r, rv, nil, err)
		return
	}
	// An error means that nobody listens any more.
	_ = rv.writeSuccess(w, objects)
}

// refuse answers that a review failed for a reason, or that it could not be read.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, rv *review, unread, reason error) {
	if unread != nil {
		status, text := http.StatusBadRequest, "Invalid JSON payload"
		if large := (*http.MaxBytesError)(nil); errors.As(unread, &large) {
			status, text = http.StatusRequestEntityTooLarge, "The review is too large"
		}
		crd := r.PathValue("crd")
		if _, known := h.steps[crd]; !known {
			crd = "" // or somebody who makes up names could fill the log
		}
		h.failures.log(crd, "", text, fmt.Errorf("the review cannot be read: %w", unread))
		http.Error(w, text, status)
		return
	}
	message := reason.Error()
	if f := (*failure)(nil); errors.As(reason, &f) {
		message = f.message
	}
	h.failures.log(r.PathValue("crd"), rv.Request.UID, message, reason)
	_ = rv.writeFailure(w, message)
}

// convert returns the objects of a review in the desired version. An error is a *failure.
func (h *Handler) convert(r *http.Request, rv *review) (_ []object, err error) {
	crd := r.PathValue("crd")
	c := &conversion{crd: crd, steps: h.steps[crd], review: rv}
	if c.objects, err = readObjects(rv.Request.Objects); err != nil {
		return nil, c.failed(err.Error())
	}
	todo, err := c.check()
	if err != nil || !todo {
		return c.objects, err
	}
	h.opts.Log.Info("Handle kubernetesCustomResourceConversion event for crd",
		"crd", crd, "uid", rv.Request.UID, "len", len(c.objects), "versions", strings.Join(c.versions(), ","), "desired", rv.Request.Desired)
	ctx, cancel := context.WithTimeout(r.Context(), h.timeout(r))
	defer cancel()
	if err := h.gate.Start(ctx); err != nil {
		return nil, &failure{message: "The conversion waited for others until " + timeLimit(ctx), cause: err}
	}
	defer h.gate.Finish()
	defer func() {
		if p := recover(); p != nil {
			err = &failure{message: "The operator has a bug: its log tells more", cause: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	err = c.run(ctx, h.opts.Runner)
	return c.objects, err
}

// timeout is how long an answer may take: a little less than the API server waits, so that it hears of the reason.
func (h *Handler) timeout(r *http.Request) time.Duration {
	limit := h.opts.Timeout
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		limit = min(limit, asked)
	}
	return limit - min(limit/10, time.Second)
}
