package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// largestReview is what fits: an update brings two objects. The API server itself takes 3 MiB, but there are others that
// are joined to a cluster, with larger objects.
const largestReview = 16 << 20

var _ http.Handler = (*Handler)(nil)

// ServeHTTP answers
//
//	GET /healthz           with 200
//	POST path-of-a-binding with an AdmissionReview; see pathOf
//
// Statuses other than 200 leave it to the API server to do as the failure policy says.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	healthz := r.URL.Path == "/healthz"
	switch {
	case healthz && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		w.WriteHeader(http.StatusOK)
	case healthz:
		refuse(w, http.StatusMethodNotAllowed, "", "Allow", "GET, HEAD")
	case r.Method != http.MethodPost:
		refuse(w, http.StatusMethodNotAllowed, "", "Allow", "POST")
	default:
		h.review(w, r)
	}
}

func (h *Handler) review(w http.ResponseWriter, r *http.Request) {
	hook := h.webhooks[r.URL.Path]
	if hook == nil {
		if h.strangers.Allow() {
			h.opts.Log.Warn("No hook reviews requests for this path: is a webhook configuration of another operator, or of an earlier version, still there?", "path", r.URL.Path)
		}
		refuse(w, http.StatusNotFound, fmt.Sprintf("no hook found for %q", r.URL.Path))
		return
	}
	if r.ContentLength != 0 && !isJSON(r.Header.Get("Content-Type")) {
		refuse(w, http.StatusUnsupportedMediaType, "")
		return
	}
	limit := patience(r.URL.Query(), hook.binding)
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	body, review, status, err := h.read(w, r)
	if err != nil {
		refuse(w, status, err.Error())
		return
	}
	slots := h.slots[hook.hook]
	if !slots.Enter() {
		h.opts.Log.Warn("A review is refused, too many are waiting for the hook: make it faster, or let it review less", "hook", hook.hook.Name, "binding", hook.binding.Name)
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("too many reviews are waiting for hook %q", hook.hook.Name))
		return
	}
	defer slots.Leave()
	log := h.log(hook, review)
	log.Info("Got AdmissionReview request", "kind", review.Request.Kind.Kind, "name", review.Request.Name, "namespace", review.Request.Namespace,
		"operation", review.Request.Operation, "subResource", review.Request.SubResource)
	begun := time.Now()
	answer, err := h.admit(ctx, hook, body, log)
	elapsed := time.Since(begun).Round(time.Millisecond).String()
	switch {
	case r.Context().Err() != nil:
		log.Info("The API server no longer waits for the answer", "elapsed", elapsed)
		return
	case err != nil && ctx.Err() != nil:
		err = lateError(limit)
	}
	verdict, failure := hook.judge(review.Request.Operation, answer, err)
	if failure != nil {
		log.Error("validation failed", "error", failure.Error(), "failurePolicy", hook.policy)
	}
	log.Info("AdmissionResponse from hook", "allowed", verdict.allowed, "code", verdict.code, "warnings", len(verdict.warnings),
		"patchBytes", len(verdict.patch), "elapsed", elapsed)
	if err := review.respond(w, verdict); err != nil {
		log.Info("The answer did not reach the API server", "error", err.Error())
	}
}

// read returns the whole review and what is in it, or a status and an error for the caller.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) ([]byte, *review, int, error) {
	// The deadline is in the past: it ends a read that waits.
	reading := h.readings.Begin(func() { _ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) })
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestReview))
	if broken := reading.End(); broken && err != nil {
		if h.slow.Allow() {
			h.opts.Log.Warn("A review is broken off, it came too slowly and others came: who else can reach this port? --validating-webhook-client-ca keeps them out", "from", r.RemoteAddr)
		}
		return nil, nil, http.StatusServiceUnavailable, errors.New("too many reviews are on their way")
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the review is larger than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, nil, http.StatusBadRequest, errInvalid
	}
	review, err := parseReview(body)
	return body, review, http.StatusBadRequest, err
}

// log is the logger of a review. The names of the first two fields are those of the original program.
func (h *Handler) log(w *webhook, r *review) *slog.Logger {
	return h.opts.Log.With("configurationID", strings.Trim(root, "/"), "webhookID", strings.TrimPrefix(w.path, root),
		"hook", w.hook.Name, "binding", w.binding.Name, "event", w.typ.String(), "uid", r.Request.UID)
}

// admit runs the hook, and returns when there is an answer or ctx has ended, whichever comes first: ending a hook takes
// a while. The run keeps its slot as long as it lasts.
func (h *Handler) admit(ctx context.Context, w *webhook, review []byte, log *slog.Logger) (*effect.AdmissionAnswer, error) {
	slots := h.slots[w.hook]
	if err := slots.Start(ctx); err != nil {
		return nil, err
	}
	type result struct {
		answer *effect.AdmissionAnswer
		err    error
	}
	done := make(chan result, 1)
	h.runs.Go(func() {
		defer slots.Finish()
		var out result
		defer func() {
			if bug := recover(); bug != nil {
				log.Error("panic recovered in a review", "error", fmt.Sprint(bug), "stack", string(debug.Stack()))
				out = result{nil, errors.New("the operator panicked: this is a bug in it")}
			}
			done <- out
		}()
		out.answer, out.err = h.opts.Runner.Admit(ctx, w.hook, w.typ, w.index, review)
	})
	select {
	case out := <-done:
		return out.answer, out.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

func refuse(w http.ResponseWriter, status int, text string, header ...string) {
	if len(header) > 0 {
		w.Header().Set(header[0], header[1])
	}
	if text != "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}
