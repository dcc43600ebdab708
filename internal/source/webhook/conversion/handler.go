package conversion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
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
	// UnknownPath counts a review of a CRD whose hooks another replica may have.
	UnknownPath(server string)
}

// Options of a Handler. Hooks, Runner and Log are required.
type Options struct {
	// Hooks in their order: of equally short paths, the first declared one is used.
	Hooks []*hook.Hook
	// Ready reports whether a binding can answer; nil means that all can.
	Ready  func(*hook.Hook, hook.Address) bool
	Runner Runner
	Meter  Meter
	// Limits are by CRD; nil means some.
	Limits *httpserver.Limits
	// MaxBytes limits the size of a review, by default 100 MiB: the API server sends whole lists.
	MaxBytes int64
	Log      *slog.Logger
}

func (o *Options) setDefaults() {
	o.Limits = cmp.Or(o.Limits, httpserver.NewIntake(0).Limits(4, 100))
	o.MaxBytes = cmp.Or(o.MaxBytes, 100<<20)
	if o.Ready == nil {
		o.Ready = func(*hook.Hook, hook.Address) bool { return true }
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
}

type noMeter struct{}

func (noMeter) ConversionReviewed(string, string, time.Duration) {}
func (noMeter) UnknownPath(string)                               {}

// Handler answers reviews at /<name of the CRD>.
type Handler struct {
	opts  Options
	steps map[string][]step
	*httpserver.Limits
	// logged suppresses equal failures: an API server that cannot convert what it stores retries ten times a second per
	// version.
	logged logonce.Dedup
}

var _ http.Handler = (*Handler)(nil)

// NewHandler returns a Handler.
func NewHandler(o Options) *Handler {
	o.setDefaults()
	return &Handler{opts: o, steps: stepsByCRD(o.Hooks), Limits: o.Limits,
		logged: logonce.Dedup{Every: time.Minute}}
}

// Answers returns the hooks for the CRD of a request, and whether their conversions of it are all ready.
func (h *Handler) Answers(r *http.Request) (hooks []*hook.Hook, ready bool) {
	steps, known := h.steps[strings.TrimPrefix(r.URL.Path, "/")]
	for _, s := range steps {
		hooks = append(hooks, s.hook)
	}
	return slices.Compact(hooks), known && waiting(steps, h.opts.Ready) == nil
}

// ServeHTTP answers one review. The API server passes the message of a failed conversion on to its user, but no other
// status: those are for other clients, and for too many reviews, which are not read.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	crd := strings.TrimPrefix(r.URL.Path, "/")
	if h.steps[crd] == nil {
		h.opts.Meter.UnknownPath("conversion")
		httpserver.Elsewhere(w, "no hook converts this")
		return
	}
	c := &conversion{Handler: h, crd: crd, steps: h.steps[crd], start: time.Now(), w: w, review: &review{Request: &request{}}}
	httpserver.Answer(w, r, httpserver.Call[struct{}]{
		Limits: h.Limits, Key: crd, Limit: httpserver.TimeLimit(r, 30*time.Second), MaxBytes: h.opts.MaxBytes,
		Parse: c.parse, Write: c.write, Log: h.opts.Log.With("crd", crd),
	})
}

// parse returns the run of the steps, if there is an object to convert.
func (c *conversion) parse(body *httpserver.Body) (func(context.Context) (struct{}, error), error) {
	rv, err := readReview(body)
	large := (*http.MaxBytesError)(nil)
	switch {
	case err == nil && rv.Request == nil:
		return nil, httpserver.Refuse(http.StatusBadRequest, "Missing parameters: request")
	case errors.As(err, &large) && rv.Request != nil && rv.Request.UID != "":
		err = &failure{message: fmt.Sprintf("The review has more than %d bytes, the limit of the operator: use smaller pages (kubectl "+
			"--chunk-size)", large.Limit)}
	case err != nil:
		const text = "Invalid JSON payload"
		c.log(text, fmt.Errorf("cannot read the review: %s", httpserver.Text(err.Error())))
		return nil, errors.Join(httpserver.Refuse(http.StatusBadRequest, text), err)
	}
	c.review = rv
	if by := waiting(c.steps, c.opts.Ready); by != nil && err == nil {
		err = &failure{message: fmt.Sprintf("The hook %q is not ready yet: try again later", by.Name)}
	}
	if err != nil {
		return nil, err
	}
	if c.objects, err = readObjects(rv.Request.Objects); err != nil {
		return nil, c.failed(err.Error())
	}
	first, todo, err := c.next()
	if err != nil || len(todo) == 0 {
		return nil, err
	}
	c.now.Store(&first)
	c.opts.Log.Info("Handle kubernetesCustomResourceConversion event for crd", "crd", c.crd, "uid", rv.Request.UID, "len", len(c.objects),
		"versions", strings.Join(c.versions(), ","), "desired", rv.Request.Desired)
	return c.run, nil
}

// write sends the converted objects, or why there are none.
func (c *conversion) write(_ struct{}, err error) {
	report := func(result string) { c.opts.Meter.ConversionReviewed(c.crd, result, time.Since(c.start)) }
	f, refusal := (*failure)(nil), (*httpserver.Refusal)(nil)
	switch {
	case err == nil:
		report(ResultConverted)
		_ = c.review.writeSuccess(c.w, c.objects) // an error means that the client has disconnected
		return
	case errors.Is(err, httpserver.ErrGone):
		c.opts.Log.Info("The API server no longer waits for the answer", "crd", c.crd, "uid", httpserver.Text(c.review.Request.UID))
		return
	case errors.As(err, &refusal):
		if refusal.Status == http.StatusServiceUnavailable {
			report(ResultFailed)
		}
		http.Error(c.w, refusal.Text, refusal.Status)
		return
	case errors.Is(err, httpserver.ErrSlots):
		f = &failure{message: "The conversion waited too long for others", cause: err}
	case !errors.As(err, &f):
		f = c.now.Load().judge(c.review, nil, err)
	}
	c.log(f.message, f)
	if f.refused {
		report(ResultRefused)
	} else {
		report(ResultFailed)
	}
	_ = c.review.writeFailure(c.w, f.message)
}

// log logs a failure, and repeats equal ones once a minute.
func (c *conversion) log(message string, reason error) {
	suppressed, due := c.logged.Due(c.crd+" "+message, "")
	if !due {
		return
	}
	fields := []any{"crd", c.crd, "uid", httpserver.Text(c.review.Request.UID), "error", reason.Error()}
	if suppressed > 0 {
		fields = append(fields, "again", suppressed)
	}
	c.opts.Log.Error("conversion failed", fields...)
}
