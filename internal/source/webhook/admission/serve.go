package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// largestReview is the size limit of a review; an update has two objects. The API server itself accepts 3 MiB, but
// aggregated API servers may have larger objects.
const largestReview = 16 << 20

// longestTimeout is the maximum of timeoutSeconds.
const longestTimeout = 30 * time.Second

var _ http.Handler = (*Handler)(nil)

// ServeHTTP answers
//
//	GET /healthz           with 200
//	POST path-of-a-binding with an AdmissionReview; see pathOf
//
// Statuses other than 200 make the API server apply the failure policy.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	healthz := r.URL.Path == "/healthz"
	switch {
	case healthz && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		w.WriteHeader(http.StatusOK)
	case healthz:
		reject(w, http.StatusMethodNotAllowed, "", "Allow", "GET, HEAD")
	case r.Method != http.MethodPost:
		reject(w, http.StatusMethodNotAllowed, "", "Allow", "POST")
	default:
		h.review(w, r)
	}
}

// Answers reports whether the handler has a hook for a request, and whether that is ready.
func (h *Handler) Answers(r *http.Request) (known, ready bool) {
	w := h.webhooks[r.URL.Path]
	return w != nil, w != nil && h.opts.Ready(w.hook)
}

func (h *Handler) review(w http.ResponseWriter, r *http.Request) {
	hook := h.webhooks[r.URL.Path]
	if hook == nil {
		if h.unknownPaths.Allow() {
			h.opts.Log.Warn("No hook reviews requests for this path: is a webhook configuration of another operator, or of an earlier version, "+
				"still there?", "path", httpserver.HideTokens(r.URL.Path))
		}
		reject(w, http.StatusNotFound, fmt.Sprintf("no hook found for %q", httpserver.HideTokens(r.URL.Path)))
		return
	}
	if !h.opts.Ready(hook.hook) {
		h.opts.Meter.AdmissionReviewed(hook.hook.Name, hook.binding.Name, ResultFailed, 0)
		reject(w, http.StatusServiceUnavailable, fmt.Sprintf("hook %q is not ready yet", hook.hook.Name))
		return
	}
	if r.ContentLength != 0 && !httpserver.IsJSON(r) {
		reject(w, http.StatusUnsupportedMediaType, "")
		return
	}
	start, limit := time.Now(), hook.timeLimit(r)
	ctx, cancel := context.WithTimeoutCause(r.Context(), limit, lateError(limit))
	defer cancel()
	report := func(result string) {
		h.opts.Meter.AdmissionReviewed(hook.hook.Name, hook.binding.Name, result, time.Since(start))
	}
	entered := h.limiters[hook.hook].Enter()
	if entered == nil {
		h.refuse(hook, "A review is refused, too many are waiting for the hook: make it faster, or let it review less")
		report(ResultFailed)
		reject(w, http.StatusServiceUnavailable, fmt.Sprintf("too many reviews are waiting for hook %q", hook.hook.Name))
		return
	}
	defer entered.Leave()
	body, review, status, err := h.read(ctx, w, r, entered)
	if err != nil {
		if status == http.StatusServiceUnavailable {
			h.refuse(hook, "A review is refused, no memory was free for it in time: raise --body-budget, or let hooks review less")
		}
		reject(w, status, err.Error())
		return
	}
	log := h.log(hook, review)
	log.Info("Got AdmissionReview request", "kind", httpserver.Text(review.Request.Kind.Kind), "name", httpserver.Text(review.Request.Name),
		"namespace", httpserver.Text(review.Request.Namespace), "operation", httpserver.Text(review.Request.Operation),
		"subResource", httpserver.Text(review.Request.SubResource))
	answer, err := h.admit(ctx, hook, review, body, entered, log)
	elapsed := time.Since(start).Round(time.Millisecond).String()
	if r.Context().Err() != nil {
		log.Info("The API server no longer waits for the answer", "elapsed", elapsed)
		return
	}
	verdict := hook.judge(review.Request.Operation, body, answer, err)
	result := verdict.result()
	report(result)
	log.Info("AdmissionResponse from hook", "result", result, "allowed", verdict.allowed, "code", verdict.code, "failurePolicy", hook.policy,
		"warnings", len(verdict.warnings), "patchBytes", len(verdict.patch), "elapsed", elapsed)
	if err := review.respond(w, verdict); err != nil {
		log.Info("The answer did not reach the API server", "error", err.Error())
	}
}

// refuse logs a refused review, once a minute for each hook.
func (h *Handler) refuse(w *webhook, message string) {
	if suppressed, due := h.refused.Due(w.hook.Name+" "+message, ""); due {
		h.opts.Log.Warn(message, "hook", w.hook.Name, "binding", w.binding.Name, "again", suppressed)
	}
}

// read returns the body and the parsed review, or a status and an error for the client.
func (h *Handler) read(ctx context.Context, w http.ResponseWriter, r *http.Request,
	entered *httpserver.Request) ([]byte, *review, int, error) {
	body, err := entered.ReadBody(ctx, w, r, largestReview)
	tooLarge := (*http.MaxBytesError)(nil)
	switch {
	case ctx.Err() != nil:
		return nil, nil, http.StatusServiceUnavailable, fmt.Errorf("too many reviews are being sent: %w", err)
	case errors.As(err, &tooLarge):
		return nil, nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the review is larger than %d bytes", tooLarge.Limit)
	case err != nil:
		return nil, nil, http.StatusBadRequest, errInvalid
	}
	review, err := parseReview(body)
	return body, review, http.StatusBadRequest, err
}

// log is the logger of a review. The first two keys are those of upstream.
func (h *Handler) log(w *webhook, r *review) *slog.Logger {
	return h.opts.Log.With("configurationID", strings.Trim(root, "/"), "webhookID", strings.TrimPrefix(w.path, root),
		"hook", w.hook.Name, "binding", w.binding.Name, "event", w.typ.String(), "uid", httpserver.Text(r.Request.UID))
}

// admit runs the hook, and returns when there is an answer or ctx has ended, whichever comes first: ending a process takes
// time. The run keeps its slot until it has ended. The Runner logs failures of runs, admit those before a run.
func (h *Handler) admit(ctx context.Context, w *webhook, r *review, body []byte, entered *httpserver.Request,
	log *slog.Logger) (*effect.AdmissionAnswer, error) {
	if entered.Start(ctx) != nil {
		err := context.Cause(ctx)
		if errors.As(err, new(lateError)) {
			log.Error("validation failed", "error", "all slots of the hook were taken: "+err.Error(), "failurePolicy", w.policy)
		}
		return nil, err
	}
	type outcome struct {
		answer *effect.AdmissionAnswer
		err    error
	}
	done := make(chan outcome, 1)
	bodyUsed := entered.Keep()
	h.runs.Go(func() {
		defer bodyUsed()
		defer entered.Finish()
		var out outcome
		defer func() {
			if bug := recover(); bug != nil {
				log.Error("panic recovered in a review", "error", fmt.Sprint(bug), "stack", string(debug.Stack()))
				out = outcome{nil, errors.New("the operator panicked: this is a bug in it")}
			}
			done <- out
		}()
		out.answer, out.err = h.opts.Runner.Admit(ctx, Review{
			Review: event.Review{
				Event: event.Event{Hook: w.hook, Type: w.typ, Index: w.index}, Body: body, Subject: r.subject(w),
				NoEffects: r.Request.DryRun,
			},
			Judge: func(answer *effect.AdmissionAnswer, err error) (string, error) {
				v := w.judge(r.Request.Operation, body, answer, err)
				return v.String(), v.err()
			},
		})
	})
	select {
	case out := <-done:
		return out.answer, out.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (w *webhook) timeLimit(r *http.Request) time.Duration {
	return httpserver.TimeLimit(r, time.Duration(cmp.Or(w.binding.TimeoutSeconds, 10))*time.Second, longestTimeout)
}

func reject(w http.ResponseWriter, status int, text string, header ...string) {
	if len(header) > 0 {
		w.Header().Set(header[0], header[1])
	}
	if text != "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}
