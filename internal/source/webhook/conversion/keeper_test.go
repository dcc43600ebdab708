package conversion

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// edited is an API server whose CRD another client edits after each write, until a time; watching is forbidden.
type edited struct {
	began time.Time
	until time.Duration

	mu      sync.Mutex
	writes  []string
	crd     []byte
	changed chan struct{}
}

// edit changes the CRD. It requires mu.
func (e *edited) edit() {
	e.crd = []byte(unconverted)
	close(e.changed)
	e.changed = make(chan struct{})
}

const unconverted = `{"metadata":{"name":"` + widgets + `"},"spec":{"conversion":{"strategy":"None"}}}`

func (e *edited) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	status, body := http.StatusOK, ""
	switch now := time.Since(e.began); {
	case r.URL.Query().Get("watch") != "":
		status, body = http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
	case r.Method != http.MethodGet:
		e.writes = append(e.writes, now.Round(time.Second).String())
		patch, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if e.crd, err = jsonpatch.MergePatch(e.crd, patch); err != nil {
			return nil, err
		}
		if now < e.until {
			e.edit()
		}
	default:
		body = `{"items":[` + string(e.crd) + `]}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// complete adds that all hooks are ready, and functions without an effect.
func complete(t keep.Target) keep.Target {
	t.Ready, t.Seen = func(*hook.Hook, hook.Address) bool { return true }, func(string, []string, bool) {}
	t.Report = func(hook.Kind, []string, string, error) {}
	return t
}

// What another client writes is restored immediately, with a back-off if it does so repeatedly, and immediately again after ten minutes.
func TestDispute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &edited{began: time.Now(), until: 5 * time.Minute, crd: []byte(unconverted), changed: make(chan struct{})}
		client, err := kube.NewClient(&rest.Config{Host: "https://offline", Transport: server, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		target := complete(keep.Target{Client: client, URL: "https://127.0.0.1:1", Bundle: func() []byte { return []byte("ca") },
			Log: slog.New(slog.DiscardHandler), Changes: []func() <-chan struct{}{func() <-chan struct{} {
				server.mu.Lock()
				defer server.mu.Unlock()
				return server.changed
			}}})
		r := NewRegistrar(RegistrarOptions{Hooks: hooks(widgets, "v1>v2"), Converted: func(string) {}, Target: target})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			for _, after := range []time.Duration{16 * time.Minute, 100 * time.Millisecond} {
				time.Sleep(after)
				server.mu.Lock()
				server.edit()
				server.mu.Unlock()
			}
			time.Sleep(5 * time.Minute)
		}()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		want := "0s 0s 1s 3s 8s 23s 1m23s 2m23s 3m23s 4m23s 5m23s 16m0s 16m1s"
		if got := strings.Join(server.writes, " "); got != want {
			t.Errorf("writes after %s, not %s", got, want)
		}
	})
}
