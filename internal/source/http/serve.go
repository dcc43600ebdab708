package http

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// writeTimeout bounds writing a response.
const writeTimeout = time.Minute

var _ http.Handler = (*Handler)(nil)

// ServeHTTP serves a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Handler: h, w: w, r: r, id: newID(), start: time.Now()}
	c.log = h.opts.Log.With("request", c.id, "method", shortMethod(r.Method))
	// The previous response on this connection may have left a deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if err := c.answer(); err != nil {
		c.reject(err)
	}
}

// Answers returns the hook of a request, and whether its binding is ready.
func (h *Handler) Answers(r *http.Request) (hooks []*hook.Hook, ready bool) {
	if segments, err := segmentsOf(r.URL); err == nil && segments != nil {
		if to, _ := h.routes.find(r.Method, segments); to != nil {
			return []*hook.Hook{to.hook}, h.opts.Ready(to.hook, to.address())
		}
	}
	return nil, false
}

// call is one request.
type call struct {
	*Handler
	w     http.ResponseWriter
	r     *http.Request
	id    string
	user  *event.User
	log   *slog.Logger
	start time.Time
}

// answer serves the request, or returns a *httpserver.Refusal.
func (c *call) answer() error {
	if err := c.identify(); err != nil {
		return err
	}
	segments, err := segmentsOf(c.r.URL)
	if err != nil {
		return err
	}
	var to *route
	var allowed []string
	if segments != nil {
		to, allowed = c.routes.find(c.r.Method, segments)
	}
	switch {
	case len(allowed) == 0:
		return httpserver.Refuse(http.StatusNotFound, "no hook serves this path")
	case c.r.Method == http.MethodOptions:
		c.w.Header().Set("Allow", strings.Join(allowed, ", "))
		c.send(http.StatusNoContent, nil)
		return nil
	case to == nil:
		c.w.Header().Set("Allow", strings.Join(allowed, ", "))
		return httpserver.Refuse(http.StatusMethodNotAllowed, "this path supports %s", strings.Join(allowed, ", "))
	}
	c.log = c.log.With("hook", to.hook.Name, "binding", to.binding.Name, "route", to.binding.Path)
	if c.user != nil {
		c.log = c.log.With("user", c.user.Name)
		if err := c.opts.Access.authorize(c.r.Context(), c.user, to.binding, c.r.URL.Path); err != nil {
			return err
		}
	}
	if !c.opts.Ready(to.hook, to.address()) {
		return httpserver.Refuse(http.StatusServiceUnavailable, "the hook is starting: try again later")
	}
	httpserver.Answer(c.w, c.r, httpserver.Call[effect.HTTPAnswer]{
		Limits: c.Limits, Key: to.hook, Limit: to.timeout, MaxBytes: c.opts.BodyLimit, Log: c.log,
		Parse: func(body *httpserver.Body) (func(context.Context) (effect.HTTPAnswer, error), error) {
			request, err := c.read(body, to, segments)
			return func(ctx context.Context) (effect.HTTPAnswer, error) {
				return c.opts.Runner.Answer(ctx, to.hook, to.index, request)
			}, err
		},
		Write: func(answer effect.HTTPAnswer, err error) {
			if err = c.respond(answer, err); err != nil {
				c.reject(err)
			}
		},
	})
	return nil
}

// identify authenticates the client; on loopback it only checks the origin.
func (c *call) identify() error {
	if c.opts.Access == nil {
		c.user = c.opts.As
		return c.checkLocal()
	}
	var err error
	if c.user, err = c.opts.Access.identify(c.r.Context(), addressOf(c.r.RemoteAddr), c.r.Header.Get("Authorization")); err == nil {
		httpserver.MarkKnown(c.r.Context())
	}
	return err
}

// respond sends the response of a hook, or returns a *httpserver.Refusal.
func (c *call) respond(answer effect.HTTPAnswer, err error) error {
	elapsed := slog.String("elapsed", time.Since(c.start).Round(time.Millisecond).String())
	switch {
	case err == nil:
		c.log.Info("HTTP request", "status", answer.Status, "bytes", len(answer.Body), elapsed)
		maps.Copy(c.w.Header(), answer.Headers)
		c.send(answer.Status, answer.Body)
		return nil
	case errors.Is(err, httpserver.ErrGone):
		c.log.Info("The client has hung up, the run is ended", elapsed)
		return nil
	case errors.As(err, new(*httpserver.Refusal)):
		return err
	case errors.Is(err, ErrBusy):
		c.log.Warn("A request is refused", "error", err.Error())
		fallthrough
	case errors.Is(err, httpserver.ErrSlots):
		return httpserver.Refuse(http.StatusServiceUnavailable, "too many requests: try again later")
	case errors.As(err, new(httpserver.Late)), errors.Is(err, ErrLate):
		c.log.Error("The hook gave no answer in time: make it faster, or raise the binding's timeout", elapsed)
		return httpserver.Refuse(http.StatusGatewayTimeout, "the hook gave no answer in time")
	}
	c.log.Error("The hook could not answer a request", "error", err.Error(), elapsed)
	return httpserver.Refuse(http.StatusInternalServerError, "the hook failed; the log of the operator says why")
}

func (c *call) reject(err error) {
	r := &httpserver.Refusal{Status: http.StatusInternalServerError, Text: "internal error"}
	if !errors.As(err, &r) {
		c.log.Error("A request could not be answered", "error", err.Error())
	}
	switch r.Status {
	case http.StatusUnauthorized:
		c.w.Header().Set("WWW-Authenticate", `Bearer realm="shell-operator"`)
		c.w.Header().Set("Connection", "close")
	case http.StatusServiceUnavailable:
		c.w.Header().Set("Retry-After", "1")
	}
	c.log.Debug("HTTP request refused", "status", r.Status, "reason", r.Text)
	text, _ := json.Marshal(map[string]string{"error": r.Text, "id": c.id}) // strings cannot fail
	c.w.Header().Set("Content-Type", "application/json")
	c.send(r.Status, append(text, '\n'))
}

// send writes a response. An error means that the client has disconnected.
func (c *call) send(status int, body []byte) {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if status != http.StatusNoContent && status != http.StatusNotModified {
		c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead && len(body) > 0 {
		_, _ = c.w.Write(body)
	}
}

// shortMethod keeps arbitrary methods out of the log.
func shortMethod(method string) string {
	if slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, method) {
		return method
	}
	return "other"
}
