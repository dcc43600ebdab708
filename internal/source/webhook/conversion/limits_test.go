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
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// runnerFunc is a Runner.
type runnerFunc func(ctx context.Context, review []byte) (*effect.ConversionAnswer, error)

func (f runnerFunc) Convert(ctx context.Context, r Review) (*effect.ConversionAnswer, error) {
	answer, err := f(ctx, r.Body)
	return judged(r, answer, err)
}

const smallReview = `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u",` +
	`"desiredAPIVersion":"acme.dev/v2","objects":[{"apiVersion":"acme.dev/v1"}]}}`

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

// The answer names the step that was late, or that the review waited for others.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		one := httpserver.NewIntake(0).Limits(1, 1)
		h := handler(Options{Limits: one}, func(ctx context.Context, _ []byte) (*effect.ConversionAnswer, error) {
			<-release
			return nil, context.Cause(ctx)
		})
		for _, want := range []string{
			`Hook failed to convert to acme.dev/v2: hook "hook-1", binding "b", step from v1 to v2: it took too long`,
			"The conversion waited too long for others",
		} {
			start := time.Now()
			if got := ask(t, h, t.Context(), "?timeout=10s"); got != want || time.Since(start) != 9*time.Second {
				t.Errorf("got %q after %s, want %q", got, time.Since(start), want)
			}
		}
		close(release)
		h.Wait()
	})
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
