package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
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

func TestContext(t *testing.T) {
	handler, _ := newHandler(t, Options{Runner: echoes, BodyLimit: 20}, "a.sh POST /a/{x}\na.sh GET /a/{x}")
	handler.routes[0].hook.HTTP[0].Headers = []string{"X-Signature"}
	for _, tt := range []struct {
		method, target, body string
		headers              []string
		status               int
		want                 string
	}{
		{"POST", "/a/b?q=1&q=&p", "hi", nil, 200, `POST /a/{x}: POST /a/b map[x:b] map[p:[] q:[1 ]] map[] "hi"`},
		{
			"POST", "/a/b", "", []string{"Authorization: Bearer secret", "Cookie: a=b", "X-Signature: s", "X-Other: o", "Accept: a", "Accept: b"},
			200,
			`POST /a/{x}: POST /a/b map[x:b] map[] map[Accept:[a b] X-Signature:[s]] ""`,
		},
		{"GET", "/a/b", "", []string{"X-Signature: s"}, 200, `GET /a/{x}: GET /a/b map[x:b] map[] map[] ""`},
		{"HEAD", "/a/b", "", nil, 200, ""},
		{"OPTIONS", "/a/b", "", nil, 204, ""},
		{"POST", "/a/b", ` {"a": 1} `, []string{"Content-Type: application/merge-patch+json; charset=utf-8"}, 200,
			`POST /a/{x}: POST /a/b map[x:b] map[] map[Content-Type:[application/merge-patch+json; charset=utf-8]] " {\"a\": 1} "`},
		{"POST", "/a/b", `{"a": 1`, []string{"Content-Type: text/plain"}, 200,
			`POST /a/{x}: POST /a/b map[x:b] map[] map[Content-Type:[text/plain]] "{\"a\": 1"`},
		{"POST", "/a/b", `{"a": 1`, []string{"Content-Type: application/json"}, 400, `the body is not valid JSON, at byte 7`},
		{"POST", "/a/b", `1 2`, []string{"Content-Type: application/json"}, 400, `the body is more than one JSON text`},
		{"POST", "/a/b", `{"a":1,"a":2}`, []string{"Content-Type: application/json"}, 400, `the body is not valid JSON, at byte 6`},
		{"POST", "/a/b", strings.Repeat("x", 21), nil, 413, `the body has more than 20 bytes`},
		{"POST", "/a/b?%zz", "", nil, 400, `the query cannot be read`},
		{"POST", "/a/b?a;b", "", nil, 400, `the query cannot be read`},
		{"POST", "/a/b?x=%ff", "", nil, 400, `the query is not text`},
		{"POST", "/a/b?x=a%00", "", nil, 400, `the query is not text`},
		{"POST", "/a/b", "", []string{"X-Signature: \xff"}, 400, `the header X-Signature is not UTF-8`},
		{"PUT", "/a/b", "", nil, 405, `this path supports GET, HEAD, OPTIONS, POST`},
		{"GET", "/b", "", nil, 404, `no hook serves this path; /openapi.json lists the paths`},
		{"PUT", "/openapi.json", "", nil, 405, `this path supports GET, HEAD, OPTIONS`},
		{"OPTIONS", "/openapi.json", "", nil, 204, ""},
		{"GET", "/a/b", "", []string{"Host: localhost:1"}, 200, `GET /a/{x}: GET /a/b map[x:b] map[] map[] ""`},
		{"GET", "/a/b", "", []string{"Host: [::1]:1"}, 200, `GET /a/{x}: GET /a/b map[x:b] map[] map[] ""`},
		{"GET", "/a/b", "", []string{"Host: evil.example.com"}, 403, `the Host header is not that of this machine: use 127.0.0.1 or localhost`},
		{"GET", "/a/b", "", []string{"Host: 127.0.0.1.evil.example.com"}, 403,
			`the Host header is not that of this machine: use 127.0.0.1 or localhost`},
		{"GET", "/a/b", "", []string{"Sec-Fetch-Site: cross-site"}, 403, `cross-site requests are rejected`},
		{"POST", "/a/b", "", []string{"Origin: null"}, 403, `cross-site requests are rejected`},
		{"GET", "/a/b", "", []string{"Sec-Fetch-Site: none"}, 200, `GET /a/{x}: GET /a/b map[x:b] map[] map[] ""`},
		{"GET", "/openapi.json", "", []string{"Sec-Fetch-Site: same-site"}, 403, `cross-site requests are rejected`},
	} {
		w := ask(t.Context(), handler, tt.method, tt.target, tt.body, tt.headers...)
		got := w.Body.String()
		if w.Code >= 400 {
			got = errorIn(t, w)
		}
		if w.Code != tt.status || got != tt.want {
			t.Errorf("%s %s %q %q:\n got %d %s\nwant %d %s", tt.method, tt.target, tt.body, tt.headers, w.Code, got, tt.status, tt.want)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: headers are %v", tt.method, tt.target, w.Header())
		}
		if (w.Code == 405 || tt.method == "OPTIONS" && w.Code == 204) && !strings.Contains(w.Header().Get("Allow"), "GET, HEAD, OPTIONS") {
			t.Errorf("%s %s: Allow is %q", tt.method, tt.target, w.Header().Get("Allow"))
		}
	}
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
			if w.Code >= 500 && !documentOf(t, handler).documented(t, "GET", "/a/{x}", w) {
				t.Errorf("%s: %d is not in the document", tt.name, w.Code)
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

// No hook runs before snapshots are filled; the OpenAPI document is served.
func TestNotReady(t *testing.T) {
	ready := map[string]bool{"b.sh": true}
	handler, _ := newHandler(t, Options{Runner: echoes, Ready: func(h *hook.Hook) bool { return ready[h.Name] }}, "a.sh GET /a\nb.sh GET /b")
	if w := ask(t.Context(), handler, "GET", "/b", ""); w.Code != 200 {
		t.Errorf("got %d from a hook that is ready", w.Code)
	}
	if w := ask(t.Context(), handler, "GET", "/a", ""); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d", w.Code)
	}
	if w := ask(t.Context(), handler, "GET", "/openapi.json", ""); w.Code != 200 {
		t.Errorf("got %d", w.Code)
	}
	ready["a.sh"] = true
	if w := ask(t.Context(), handler, "GET", "/a", ""); w.Code != 200 {
		t.Errorf("got %d", w.Code)
	}
}
