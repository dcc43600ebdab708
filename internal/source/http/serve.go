package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// writeTimeout bounds writing a response.
const writeTimeout = time.Minute

var _ http.Handler = (*Handler)(nil)

// ServeHTTP serves a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Handler: h, w: w, r: r, id: newID()}
	c.log = h.opts.Log.With("request", c.id, "method", shortMethod(r.Method))
	// The previous response on this connection may have left a deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if err := c.answer(); err != nil {
		c.reject(err)
	}
}

// Answers reports whether the handler has a hook for a request, and whether that is ready.
func (h *Handler) Answers(r *http.Request) (known, ready bool) {
	segments, err := segmentsOf(r.URL)
	if err != nil || segments == nil {
		return false, false
	}
	to, _ := h.routes.find(r.Method, segments)
	return to != nil, to != nil && h.opts.Ready(to.hook)
}

// call is one request.
type call struct {
	*Handler
	w    http.ResponseWriter
	r    *http.Request
	id   string
	user *event.User
	log  *slog.Logger
	// start is when the hook was called.
	start time.Time
}

// answer serves the request, or returns a *rejection.
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
	described := c.r.URL.Path == openAPIPath
	switch {
	case described:
		allowed = []string{http.MethodGet, http.MethodHead, http.MethodOptions}
	case segments != nil:
		to, allowed = c.routes.find(c.r.Method, segments)
	}
	switch {
	case len(allowed) == 0:
		return reject(http.StatusNotFound, "no hook serves this path; %s lists the paths", openAPIPath)
	case c.r.Method == http.MethodOptions:
		c.w.Header().Set("Allow", strings.Join(allowed, ", "))
		c.send(http.StatusNoContent, nil)
		return nil
	case described && slices.Contains(allowed, c.r.Method):
		c.w.Header().Set("Content-Type", "application/json")
		c.send(http.StatusOK, c.openAPI)
		return nil
	case to == nil:
		c.w.Header().Set("Allow", strings.Join(allowed, ", "))
		return reject(http.StatusMethodNotAllowed, "this path supports %s", strings.Join(allowed, ", "))
	}
	c.log = c.log.With("hook", to.hook.Name, "binding", to.binding.Name, "route", to.binding.Path)
	if c.user != nil {
		c.log = c.log.With("user", c.user.Name)
		if err := c.opts.Access.authorize(c.r.Context(), c.user, to.binding, c.r.URL.Path); err != nil {
			return err
		}
	}
	if !c.opts.Ready(to.hook) {
		return c.later("the hook is starting")
	}
	return c.callHook(to, segments)
}

// identify authenticates the client; on loopback it only checks the origin.
func (c *call) identify() error {
	if c.opts.Access == nil {
		c.user = c.opts.As
		return c.checkLocal()
	}
	var err error
	c.user, err = c.opts.Access.identify(c.r.Context(), c.r.Header.Get("Authorization"))
	return err
}

// callHook runs the hook and sends its response.
func (c *call) callHook(to *route, segments []string) error {
	entered := c.limiters[to.hook].Enter()
	if entered == nil {
		c.log.Warn("A request is refused, too many are waiting for the hook: make it faster, or raise --http-parallel")
		return c.later("too many requests are waiting")
	}
	defer entered.Leave()
	reading, read := context.WithTimeout(c.r.Context(), to.timeout)
	request, err := c.read(reading, entered, to, segments)
	read()
	if err != nil {
		return err
	}
	// The server's read deadline must not end the run. Not every connection supports deadlines.
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
	ctx, cancel := context.WithTimeout(c.r.Context(), to.timeout)
	defer cancel()
	c.start = time.Now()
	answer, err := c.run(ctx, to, request, entered)
	elapsed := slog.String("elapsed", time.Since(c.start).Round(time.Millisecond).String())
	switch {
	case c.r.Context().Err() != nil:
		c.log.Info("The client has hung up, the run is ended", elapsed)
		return nil
	case errors.Is(err, ErrBusy):
		c.log.Warn("A request is refused", "error", err.Error())
		return c.later("too many requests")
	case err != nil && (ctx.Err() != nil || errors.Is(err, ErrLate)):
		c.log.Error("The hook gave no answer in time: make it faster, or raise the binding's timeout", "timeout", to.timeout.String(), elapsed)
		return reject(http.StatusGatewayTimeout, "the hook gave no answer in time")
	case err != nil:
		c.log.Error("The hook could not answer a request", "error", err.Error(), elapsed)
		return reject(http.StatusInternalServerError, "the hook failed; the log of the operator says why")
	}
	c.log.Info("HTTP request", "status", answer.Status, "bytes", len(answer.Body), elapsed)
	maps.Copy(c.w.Header(), answer.Headers)
	c.send(answer.Status, answer.Body)
	return nil
}

// run runs the hook, and returns when there is an answer or ctx has ended, whichever comes first: ending a process takes
// time. The run keeps its slot until it has ended.
func (c *call) run(ctx context.Context, to *route, request *event.Request, entered *httpserver.Request) (effect.HTTPAnswer, error) {
	if err := entered.Start(ctx); err != nil {
		return effect.HTTPAnswer{}, fmt.Errorf("%w: no slot was free in time", ErrBusy)
	}
	type result struct {
		answer effect.HTTPAnswer
		err    error
	}
	done := make(chan result, 1)
	bodyUsed := entered.Keep()
	c.runs.Go(func() {
		defer bodyUsed()
		defer entered.Finish()
		var out result
		defer func() {
			if bug := recover(); bug != nil {
				c.log.Error("panic recovered in a request", "error", fmt.Sprint(bug), "stack", string(debug.Stack()))
				out = result{err: errors.New("the operator panicked: this is a bug in it")}
			}
			done <- out
		}()
		out.answer, out.err = c.opts.Runner.Answer(ctx, to.hook, to.index, request)
	})
	select {
	case out := <-done:
		return out.answer, out.err
	case <-ctx.Done():
		return effect.HTTPAnswer{}, ctx.Err()
	}
}

// later rejects a request that may succeed soon.
func (c *call) later(text string) error {
	c.w.Header().Set("Retry-After", "1")
	return reject(http.StatusServiceUnavailable, "%s: try again later", text)
}

func (c *call) reject(err error) {
	var r *rejection
	if !errors.As(err, &r) {
		r = reject(http.StatusInternalServerError, "internal error")
		c.log.Error("A request could not be answered", "error", err.Error())
	}
	if r.status == http.StatusUnauthorized {
		c.w.Header().Set("WWW-Authenticate", `Bearer realm="shell-operator"`)
	}
	c.log.Debug("HTTP request refused", "status", r.status, "reason", r.text)
	text, _ := json.Marshal(map[string]string{"error": r.text, "id": c.id}) // strings cannot fail
	c.w.Header().Set("Content-Type", "application/json")
	c.send(r.status, append(text, '\n'))
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
