package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// runnerFunc is a Runner.
type runnerFunc func(ctx context.Context, review []byte) (*effect.ConversionAnswer, error)

func (f runnerFunc) Convert(ctx context.Context, r Review) (*effect.ConversionAnswer, error) {
	answer, err := f(ctx, r.Body)
	return judged(r, answer, err)
}

const smallReview = `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u",` +
	`"desiredAPIVersion":"acme.dev/v2","objects":[{"apiVersion":"acme.dev/v1"}]}}`

var smallAnswer = &effect.ConversionAnswer{Objects: []json.RawMessage{json.RawMessage(`{"apiVersion":"acme.dev/v2"}`)}}

// ask sends a review to a handler and returns the message of its answer, empty for success.
func ask(t *testing.T, h http.Handler, ctx context.Context, query string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/"+widgets+query, strings.NewReader(smallReview))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return message(t, w.Body.Bytes())
}

func message(t *testing.T, body []byte) string {
	t.Helper()
	var answer struct {
		Response struct {
			UID    string
			Result struct{ Status, Message string }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Response.UID != "u" {
		t.Errorf("not an answer: %v: %s", err, body)
	}
	if answer.Response.Result.Status == "Success" {
		return ""
	}
	return answer.Response.Result.Message
}

func handler(o Options, runner runnerFunc) *Handler {
	o.Hooks, o.Runner, o.Log = hooks(widgets, "v1>v2"), runner, slog.New(slog.DiscardHandler)
	return NewHandler(o)
}

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		running, most := 0, 0
		var mu sync.Mutex
		h := handler(Options{Parallel: 2, Queue: 3}, func(context.Context, []byte) (*effect.ConversionAnswer, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-release
			mu.Lock()
			running--
			mu.Unlock()
			return smallAnswer, nil
		})
		var asking sync.WaitGroup
		for range 5 {
			asking.Go(func() {
				if m := ask(t, h, t.Context(), ""); m != "" {
					t.Error(m)
				}
			})
		}
		synctest.Wait()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/"+widgets, strings.NewReader(smallReview))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if want := "The operator is busy with 2 conversions of this CRD, and 3 more wait: try again later\n"; w.Code != 503 ||
			w.Body.String() != want {
			t.Errorf("got %d %q, want %q", w.Code, w.Body, want)
		}
		close(release)
		asking.Wait()
		if most != 2 {
			t.Errorf("%d ran at a time", most)
		}
		if m := ask(t, h, t.Context(), ""); m != "" {
			t.Error("there is room again, but: ", m)
		}
	})
}

func TestTimeLimits(t *testing.T) {
	const late = `Hook failed to convert to acme.dev/v2: hook "hook-1", binding "b", step from v1 to v2: it took too long`
	for _, test := range []struct {
		name, query string
		limit, want time.Duration
	}{
		{"default", "", 0, 29 * time.Second},
		{"asked", "?timeout=10s", 0, 9 * time.Second},
		{"asked for more", "?timeout=10h", 0, 29 * time.Second},
		{"nonsense", "?timeout=soon", 0, 29 * time.Second},
		{"option", "?timeout=30s", 5 * time.Second, 4500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := handler(Options{Timeout: test.limit}, func(ctx context.Context, _ []byte) (*effect.ConversionAnswer, error) {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				})
				start := time.Now()
				if got := ask(t, h, t.Context(), test.query); got != late {
					t.Errorf("got %q, want %q", got, late)
				}
				if took := time.Since(start); took != test.want {
					t.Errorf("it took %s, not %s", took, test.want)
				}
			})
		})
	}
}

// A review that waits for its turn ends in time too.
func TestTimeLimitInQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := handler(Options{Parallel: 1, Queue: 1}, func(context.Context, []byte) (*effect.ConversionAnswer, error) {
			<-release
			return smallAnswer, nil
		})
		var asking sync.WaitGroup
		asking.Go(func() { ask(t, h, t.Context(), "") })
		synctest.Wait()
		if got, want := ask(t, h, t.Context(), "?timeout=10s"), "The conversion waited too long for others"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		close(release)
		asking.Wait()
	})
}

// When the API server hangs up, the hook's run ends.
func TestHangUp(t *testing.T) {
	started, ended := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(handler(Options{}, func(ctx context.Context, _ []byte) (*effect.ConversionAnswer, error) {
		close(started)
		<-ctx.Done()
		close(ended)
		return nil, context.Cause(ctx)
	}))
	defer server.Close()
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		<-started
		hangUp()
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/"+widgets, strings.NewReader(smallReview))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if response, err := server.Client().Do(r); err == nil {
		response.Body.Close()
		t.Error("there was an answer")
	}
	<-ended
	server.Client().CloseIdleConnections()
}

// A body that never ends is not read for ever, also when nothing of it can be used.
func TestEndlessBody(t *testing.T) {
	h := handler(Options{MaxBytes: 1 << 20}, nil)
	for _, test := range []struct {
		beginning string
		status    int
	}{{`{"request":{"uid":"u","objects":["`, http.StatusOK}, {`{"request":{"objects":["`, http.StatusRequestEntityTooLarge}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/"+widgets,
			io.MultiReader(strings.NewReader(test.beginning), endless{}))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%s: got %d %s, want %d", test.beginning, w.Code, w.Body, test.status)
		}
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte("x"), len(b))), nil }

func TestOtherRequests(t *testing.T) {
	h := handler(Options{}, nil)
	for _, test := range []struct {
		method, path, contentType string
		status                    int
	}{
		{"GET", "/healthz", "", 200},
		{"GET", "/" + widgets, "", 405},
		{"GET", "/", "", 404},
		{"POST", "/", "application/json", 404},
		{"POST", "/a/b", "application/json", 404},
		{"POST", "/" + widgets, "text/plain", 415},
		{"POST", "/" + widgets, "", 415},
		{"POST", "/" + widgets, "application/json", 400},
	} {
		r := httptest.NewRequest(test.method, test.path, nil)
		r.Header.Set("Content-Type", test.contentType)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%s %s %s: got %d, want %d", test.method, test.path, test.contentType, w.Code, test.status)
		}
	}
}
