package http

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Every request gets a documented response, and the hook's context is valid.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		"GET /a/b?q=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"POST /a/b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"a\": 1}",
		"POST /a/b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"HEAD /a/%2e%2e?a;b=%ff HTTP/1.1\r\nHost: [::1]:1\r\nOrigin: null\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET http://localhost/a/%2f HTTP/1.0\r\n\r\n",
		"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
		"X /a/b HTTP/1.1\r\nHost: localhost\r\nX-Signature: \xff\r\nCookie: a\r\n\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return // the server answers that with 400
		}
		handler, _ := newHandler(t, Options{BodyLimit: 100,
			Runner: runnerFunc(func(_ context.Context, h *hook.Hook, index int, r *event.Request) (effect.HTTPAnswer, error) {
				sound(t, h, index, r)
				return effect.HTTPAnswer{Status: 204}, nil
			})}, "a.sh GET /a/{x}\na.sh POST /a/{x}")
		for _, route := range handler.routes {
			route.binding.Headers = []string{"X-Signature"}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		handler.Wait()
		switch w.Code {
		case 200, 204:
		case 400, 403, 404, 405, 413:
			if r.Method != http.MethodHead {
				errorIn(t, w)
			}
		default:
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	})
}

func sound(t *testing.T, h *hook.Hook, index int, r *event.Request) {
	t.Helper()
	if want := h.HTTP[index].Method; r.Method != want && r.Method+want != "HEADGET" {
		t.Fatalf("%s runs the binding of %s", r.Method, want)
	}
	value := r.PathValues["x"]
	if value == "" || value == "." || value == ".." || strings.ContainsAny(value, "/\x00\n") || len(r.Body) > 100 || len(r.PathValues) != 1 {
		t.Fatalf("%+v", r)
	}
	for _, name := range secretHeaders {
		if r.Headers[name] != nil {
			t.Fatalf("the hook sees %s", name)
		}
	}
	texts := []string{r.Path, value}
	for _, values := range []map[string][]string{r.Query, r.Headers} {
		for name, list := range values {
			texts = append(append(texts, name), list...)
		}
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			t.Fatalf("%q is not UTF-8", text)
		}
	}
}
