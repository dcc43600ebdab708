package admission

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h, log
}

const (
	path    = "/hooks/validating/a.sh/a.acme.dev"
	minimal = `{"request":{"uid":"1"}}`
)

// Two reviews run, one waits, the fourth is rejected immediately. Other hooks are not affected.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		free := make(chan struct{})
		handler, log := newHandler(t, Options{Parallel: 2, Queue: 1,
			Runner: runnerFunc(func(_ context.Context, h *hook.Hook, _ event.Type, _ int, _ []byte) (*effect.AdmissionAnswer, error) {
				if h.Name == "b.sh" {
					return allow, nil
				}
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				<-free
				return allow, nil
			})}, "validating a.sh a.acme.dev\nvalidating b.sh b.acme.dev")
		var asked sync.WaitGroup
		for range 3 {
			asked.Go(func() {
				if status, body := post(t.Context(), handler, path, minimal); status != 200 || !strings.Contains(body, `"allowed":true`) {
					t.Errorf("got %d %s", status, body)
				}
			})
		}
		synctest.Wait()
		begun := time.Now()
		if status, body := post(t.Context(), handler, path, minimal); status != http.StatusServiceUnavailable ||
			body != `too many reviews are waiting for hook "a.sh"` {
			t.Errorf("the fourth: got %d %s", status, body)
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("the fourth has waited for %s", waited)
		}
		if status, _ := post(t.Context(), handler, "/hooks/validating/b.sh/b.acme.dev", minimal); status != 200 {
			t.Errorf("another hook: got %d", status)
		}
		close(free)
		asked.Wait()
		if most.Load() != 2 {
			t.Errorf("%d at a time", most.Load())
		}
		if !strings.Contains(log.String(), "A review is refused") {
			t.Errorf("the log does not say why:\n%s", log)
		}
		if status, _ := post(t.Context(), handler, path, minimal); status != 200 {
			t.Errorf("afterwards: got %d", status)
		}
	})
}

// A hook that ignores SIGTERM does not delay the response. It keeps its slot, and Wait waits for it.
func TestStubborn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, _ := newHandler(t, Options{Parallel: 1, Queue: 1,
			Runner: runnerFunc(func(ctx context.Context, _ *hook.Hook, _ event.Type, _ int, _ []byte) (*effect.AdmissionAnswer, error) {
				<-ctx.Done()
				time.Sleep(5 * time.Second)
				return nil, ctx.Err()
			})}, "validating a.sh a.acme.dev")
		begun := time.Now()
		status, body := post(t.Context(), handler, path+"?timeout=2s", minimal)
		if took := time.Since(begun); status != 200 || !strings.Contains(body, "gave no answer in time") || took != 1800*time.Millisecond {
			t.Errorf("got %d %s after %s", status, body, took)
		}
		// The next one does not get to run in time.
		status, body = post(t.Context(), handler, path+"?timeout=2s", minimal)
		if took := time.Since(begun); status != 200 || !strings.Contains(body, "gave no answer in time") || took != 3600*time.Millisecond {
			t.Errorf("got %d %s after %s", status, body, took)
		}
		handler.Wait()
		if took := time.Since(begun); took != 6800*time.Millisecond {
			t.Errorf("Wait returned after %s", took)
		}
	})
}

// When the caller hangs up the run ends, and nothing is answered.
func TestHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, log := newHandler(t, Options{Runner: acts("hangs")}, "validating a.sh a.acme.dev")
		ctx, hangUp := context.WithTimeout(t.Context(), time.Second)
		defer hangUp()
		begun := time.Now()
		if _, body := post(ctx, handler, path, minimal); body != "" {
			t.Errorf("got %s", body)
		}
		handler.Wait()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("took %s", took)
		}
		if !strings.Contains(log.String(), "no longer waits") || strings.Contains(log.String(), "validation failed") {
			t.Errorf("log:\n%s", log)
		}
	})
}

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
		if status, _ := post(t.Context(), handler, "/hooks/x", minimal); status != 404 {
			t.Errorf("got %d", status)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 3 {
		t.Errorf("%d records", n)
	}
}
