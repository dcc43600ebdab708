package conversion

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// roundTripper stubs the API server.
type roundTripper func(*http.Request) (status int, body string)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := f(r)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func offline(t *testing.T, server roundTripper) *follower {
	t.Helper()
	client, err := kube.NewClient(&rest.Config{Host: "https://offline", Transport: server, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return newFollower(NewRegistrar(complete(RegistrarOptions{Client: client, Hooks: hooks(widgets, "v1>v2"), URL: "https://127.0.0.1:1",
		Bundle: func() []byte { return []byte("ca") }, Log: slog.New(slog.DiscardHandler)})), widgets)
}

// complete adds that all hooks are ready, and functions without an effect.
func complete(o RegistrarOptions) RegistrarOptions {
	o.Ready, o.Report, o.Seen = func(*hook.Hook) bool { return true }, func([]string, string, error) {}, func(string, []string, bool) {}
	return o
}

// A dispute with another writer is limited by the rate of writes.
func TestDispute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		version := 1
		edited := func() string {
			version++
			return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"%d"},"spec":{"conversion":{"strategy":"None"}}}`, widgets, version)
		}
		var writes []time.Duration
		start := time.Now()
		f := offline(t, func(r *http.Request) (int, string) {
			if r.Method == http.MethodGet {
				return http.StatusOK, `{"items":[` + edited() + `]}`
			}
			writes = append(writes, time.Since(start))
			return http.StatusOK, edited()
		})
		for time.Since(start) < 2*time.Minute {
			time.Sleep(max(time.Millisecond, f.reconcile(t.Context())))
		}
		if n, most := len(writes), writeBurst+int(2*time.Minute/writeEvery); n < writeBurst || n > most {
			t.Errorf("%d writes in two minutes: %v", n, writes)
		}
	})
}

// A rejected write is retried with back-off.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes []time.Duration
		start := time.Now()
		f := offline(t, func(r *http.Request) (int, string) {
			if r.Method == http.MethodGet {
				return http.StatusOK, `{"items":[{"metadata":{"resourceVersion":"1"}}]}`
			}
			writes = append(writes, time.Since(start))
			return http.StatusUnprocessableEntity,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Invalid","code":422}`
		})
		for time.Since(start) < time.Minute {
			time.Sleep(f.reconcile(context.WithoutCancel(t.Context())))
		}
		if got, want := fmt.Sprint(writes), "[0s 1s 2s 3s 4s 30s]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
