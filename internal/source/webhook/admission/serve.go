package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// largestReview is the size limit of a review; an update has two objects. The API server itself accepts 3 MiB, but
// aggregated API servers may have larger objects.
const largestReview = 16 << 20

var _ http.Handler = (*Handler)(nil)

// Answers returns the hook of a request, and whether its binding is ready.
func (h *Handler) Answers(r *http.Request) (hooks []*hook.Hook, ready bool) {
	if w := h.routes.find(r.URL.Path); w != nil {
		return []*hook.Hook{w.hook}, h.opts.Ready(w.hook, w.address())
	}
	return nil, false
}

// ServeHTTP answers a review, at the path of its binding; see pathOf. Statuses other than 200 make the API server apply the failure policy.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hook := h.routes.find(r.URL.Path)
	if hook == nil {
		if h.unknownPaths.Allow() {
			h.opts.Log.Warn("No hook reviews requests for this path: is a webhook configuration of another operator, or of an earlier version, "+
				"still there?", "path", httpserver.HideTokens(r.URL.Path))
		}
		h.opts.Meter.UnknownPath("admission")
		httpserver.Elsewhere(w, fmt.Sprintf("no hook found for %q", httpserver.HideTokens(r.URL.Path)))
		return
	}
	if !h.opts.Ready(hook.hook, hook.address()) {
		h.opts.Meter.AdmissionReviewed(hook.hook.Name, hook.binding.Name, ResultFailed, 0)
		http.Error(w, fmt.Sprintf("hook %q is not ready yet", hook.hook.Name), http.StatusServiceUnavailable)
		return
	}
	v := &visit{Handler: h, webhook: hook, w: w, start: time.Now(), log: h.opts.Log.With(
		"configurationID", strings.Trim(root, "/"), "webhookID", strings.TrimPrefix(hook.path, root), // the keys of upstream
		"hook", hook.hook.Name, "binding", hook.binding.Name, "event", hook.typ.String())}
	httpserver.Answer(w, r, httpserver.Call[*effect.AdmissionAnswer]{
		Limits: h.Limits, Key: hook.hook, Parse: v.parse, Write: v.write, Log: v.log, MaxBytes: largestReview,
		Limit: httpserver.TimeLimit(r, time.Duration(hook.binding.TimeoutSeconds)*time.Second),
	})
}

// visit is one review.
type visit struct {
	*Handler
	*webhook
	w     http.ResponseWriter
	start time.Time
	log   *slog.Logger
	// body and review are set by parse.
	body   []byte
	review *review
}

// parse returns the run of the hook for a review. The Runner logs failures.
func (v *visit) parse(body *httpserver.Body) (func(context.Context) (*effect.AdmissionAnswer, error), error) {
	var err error
	if v.body, err = body.Bytes(); err != nil {
		return nil, errors.Join(errInvalid, err)
	}
	if v.review, err = parseReview(v.body); err != nil {
		return nil, err
	}
	q := v.review.Request
	v.log = v.log.With("uid", httpserver.Text(q.UID))
	v.log.Info("Got AdmissionReview request", "kind", httpserver.Text(q.Kind.Kind), "name", httpserver.Text(q.Name),
		"namespace", httpserver.Text(q.Namespace), "operation", httpserver.Text(q.Operation), "subResource", httpserver.Text(q.SubResource))
	return func(ctx context.Context) (*effect.AdmissionAnswer, error) {
		return v.opts.Runner.Admit(ctx, Review{
			Review: event.Review{Event: event.Event{Hook: v.hook, Type: v.typ, Index: v.index}, Body: v.body,
				Subject: v.review.subject(v.webhook), NoEffects: q.DryRun},
			Judge: func(answer *effect.AdmissionAnswer, err error) (string, error) {
				verdict := v.judge(q.Operation, v.body, answer, err)
				return verdict.String(), verdict.err()
			},
		})
	}, nil
}

// write sends the verdict on an answer or the error of a run.
func (v *visit) write(answer *effect.AdmissionAnswer, err error) {
	elapsed := time.Since(v.start)
	report := func(result string) { v.opts.Meter.AdmissionReviewed(v.hook.Name, v.binding.Name, result, elapsed) }
	refusal := (*httpserver.Refusal)(nil)
	text := elapsed.Round(time.Millisecond).String()
	switch {
	case errors.Is(err, httpserver.ErrGone):
		v.log.Info("The API server no longer waits for the answer", "elapsed", text)
		return
	case errors.As(err, &refusal):
		if refusal.Status == http.StatusServiceUnavailable {
			report(ResultFailed)
		}
		http.Error(v.w, refusal.Text, refusal.Status)
		return
	}
	verdict := v.judge(v.review.Request.Operation, v.body, answer, err)
	report(verdict.result())
	v.log.Info("AdmissionResponse from hook", "result", verdict.result(), "allowed", verdict.allowed, "code", verdict.code,
		"failurePolicy", v.policy, "warnings", len(verdict.warnings), "patchBytes", len(verdict.patch), "elapsed", text)
	if err := v.review.respond(v.w, verdict); err != nil {
		v.log.Info("The answer did not reach the API server", "error", err.Error())
	}
}
