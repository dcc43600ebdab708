package admission

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

var allow = &effect.AdmissionAnswer{Allowed: true}

// post sends a review to a hook, and returns the status and the body.
func post(ctx context.Context, h http.Handler, path, body string) (int, string) {
	r := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func newHandler(t *testing.T, o Options, hooks string) (*Handler, *logText) {
	t.Helper()
	log := &logText{}
	o.Log = log.logger(t)
	o.Hooks, _ = parseHooks(t, hooks)
	h := New(o)
	return h, log
}

const (
	path    = "/hooks/validating/a.sh/a.acme.dev"
	minimal = `{"request":{"uid":"1"}}`
)

// A review reaches the right binding of the right hook, as it is.
func TestVerbatim(t *testing.T) {
	const review = ` {"new":  1.0, "request":{"uid":"1","object":{"b":1,"a":9007199254740993,"a":null}},"apiVersion":"admission.k8s.io/v1" } `
	var calls []string
	handler, _ := newHandler(t,
		Options{Runner: runnerFunc(func(_ context.Context, h *hook.Hook, typ event.Type, index int, got []byte) (*effect.AdmissionAnswer, error) {
			if string(got) != review {
				t.Errorf("got %s", got)
			}
			b := event.Event{Hook: h, Type: typ, Index: index}
			calls = append(calls, h.Name+" "+typ.String()+" "+b.Binding().Name)
			return allow, nil
		})}, "validating a.sh a.acme.dev\nvalidating a.sh b.acme.dev\nmutating a.sh b.acme.dev\nmutating sub/b.sh b.acme.io")
	for _, path := range []string{"validating/a.sh/b.acme.dev", "mutating/a.sh/b.acme.dev", "mutating/sub/b.sh/b.acme.io"} {
		if status, body := post(t.Context(), handler, "/hooks/"+path, review); status != 200 {
			t.Errorf("%s: got %d %s", path, status, body)
		}
	}
	const want = "a.sh kubernetesValidating b.acme.dev, a.sh kubernetesMutating b.acme.dev, sub/b.sh kubernetesMutating b.acme.io"
	if got := strings.Join(calls, ", "); got != want {
		t.Errorf("got %s", got)
	}
}

// Requests for unknown paths do not fill the log.
func TestStrangers(t *testing.T) {
	handler, log := newHandler(t, Options{Runner: acts("hangs")}, "validating a.sh a.acme.dev")
	for range 100 {
		if status, _ := post(t.Context(), handler, "/hooks/x", minimal); status != 503 {
			t.Errorf("got %d", status)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 3 {
		t.Errorf("%d records", n)
	}
}
