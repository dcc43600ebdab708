package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// ask sends a request, with headers as "Name: value".
func ask(ctx context.Context, h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:9690"+target, strings.NewReader(body))
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// play sends the requests of a file: a block has a method and a target, headers, and a quoted body. Below the dashes are the status and the
// text of the response, and what after returns.
func play(t *testing.T, path string, h http.Handler, after func(*httptest.ResponseRecorder) string) {
	golden.Scripts(t, path, func(t *testing.T, script string) string {
		var method, target, body string
		var headers []string
		return golden.Blocks(script, func(words []string) {
			rest := strings.Join(words[1:], " ")
			if text, err := strconv.Unquote(rest); err == nil {
				rest = text
			}
			switch {
			case words[0] == "body":
				body = rest
			case strings.HasSuffix(words[0], ":"):
				headers = append(headers, words[0]+" "+rest)
			default:
				method, target = words[0], words[1]
			}
		}, func() string {
			if method == "" {
				return "" // a comment
			}
			w := ask(t.Context(), h, method, target, body, headers...)
			text := w.Body.String()
			if w.Code >= 400 {
				text = errorIn(t, w)
			}
			if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s %s: headers are %v", method, target, w.Header())
			}
			method, body, headers = "", "", nil
			return strings.TrimSpace(fmt.Sprintln(w.Code, text)) + "\n" + after(w)
		})
	})
}

// TestRequests runs testdata/requests.txt: what hooks get of requests, and why some are refused.
func TestRequests(t *testing.T) {
	handler, _ := newHandler(t, Options{Runner: echoes, BodyLimit: 20}, "a.sh POST /a/{x}\na.sh GET /a/{x}")
	handler.routes[0].hook.HTTP[0].Headers = []string{"X-Signature"}
	play(t, "testdata/requests.txt", handler, func(w *httptest.ResponseRecorder) string {
		if allow := w.Header().Get("Allow"); allow != "" {
			return "Allow: " + allow + "\n"
		}
		return ""
	})
}

// Deep JSON is refused before a hook's jq stumbles over it.
func TestDeepJSON(t *testing.T) {
	handler, _ := newHandler(t, Options{Runner: echoes}, "a.sh POST /a")
	for depth, want := range map[int]int{deepestJSON: 200, deepestJSON + 1: 400, 100_000: 400} {
		body := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		if w := ask(t.Context(), handler, "POST", "/a", body, "Content-Type: application/json"); w.Code != want {
			t.Errorf("depth %d: got %d", depth, w.Code)
		}
	}
}

// Every outcome of a hook gives a documented response, which exposes no internals.
func TestOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name   string
			run    runnerFunc
			status int
			want   string
		}{
			{"its own status", func(context.Context, *hook.Hook, int, *event.Request) (effect.HTTPAnswer, error) {
				return effect.HTTPAnswer{Status: 418, Headers: map[string][]string{"Cache-Control": {"max-age=1"}}}, nil
			}, 418, ""},
			{"it fails", func(context.Context, *hook.Hook, int, *event.Request) (effect.HTTPAnswer, error) {
				return effect.HTTPAnswer{}, errors.New("secret")
			}, 500, "the hook failed; the log of the operator says why"},
			{"it is late", func(ctx context.Context, _ *hook.Hook, _ int, _ *event.Request) (effect.HTTPAnswer, error) {
				<-ctx.Done()
				return effect.HTTPAnswer{}, errors.New("secret: killed")
			}, 504, "the hook gave no answer in time"},
			{"its own time limit", func(context.Context, *hook.Hook, int, *event.Request) (effect.HTTPAnswer, error) {
				return effect.HTTPAnswer{}, fmt.Errorf("%w: secret", ErrLate)
			}, 504, "the hook gave no answer in time"},
			{"its rate limit", func(context.Context, *hook.Hook, int, *event.Request) (effect.HTTPAnswer, error) {
				return effect.HTTPAnswer{}, fmt.Errorf("%w: secret", ErrBusy)
			}, 503, "too many requests: try again later"},
		} {
			handler, log := newHandler(t, Options{Runner: tt.run}, "a.sh GET /a/{x}")
			w := ask(t.Context(), handler, "GET", "/a/confidential?confidential", "")
			handler.Wait()
			got := w.Body.String()
			if w.Code >= 500 {
				got = errorIn(t, w)
			}
			if w.Code != tt.status || got != tt.want {
				t.Errorf("%s: got %d %s", tt.name, w.Code, got)
			}
			if (w.Header().Get("Retry-After") != "") != (w.Code == 503) {
				t.Errorf("%s: Retry-After is %q", tt.name, w.Header().Get("Retry-After"))
			}
			if strings.Contains(log.String(), "confidential") {
				t.Errorf("%s: the log has values of the request:\n%s", tt.name, log)
			}
			if w.Code >= 500 && !strings.Contains(log.String(), "route=/a/{x}") {
				t.Errorf("%s: the log does not name the route:\n%s", tt.name, log)
			}
		}
	})
}

// No hook runs before snapshots are filled.
func TestNotReady(t *testing.T) {
	ready := map[string]bool{"b.sh": true}
	isReady := func(h *hook.Hook, _ hook.Address) bool { return ready[h.Name] }
	handler, _ := newHandler(t, Options{Runner: echoes, Ready: isReady}, "a.sh GET /a\nb.sh GET /b")
	if w := ask(t.Context(), handler, "GET", "/b", ""); w.Code != 200 {
		t.Errorf("got %d from a hook that is ready", w.Code)
	}
	if w := ask(t.Context(), handler, "GET", "/a", ""); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d", w.Code)
	}
	ready["a.sh"] = true
	if w := ask(t.Context(), handler, "GET", "/a", ""); w.Code != 200 {
		t.Errorf("got %d", w.Code)
	}
}
