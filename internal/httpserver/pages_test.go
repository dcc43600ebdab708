package httpserver

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) })
}

func TestPages(t *testing.T) {
	for _, test := range []struct {
		name      string
		path      string
		method    string
		profiling bool
		notReady  error
		status    int
		body      string
	}{
		{name: "metrics", path: "/metrics", status: 200, body: "own metrics"},
		{name: "metrics of hooks", path: "/metrics/hooks", status: 200, body: "hook metrics"},
		{name: "health", path: "/healthz", status: 200, body: "ok\n"},
		{name: "ready", path: "/readyz", status: 200, body: "ok\nhook \"a\" waits\n"},
		{name: "not ready", path: "/readyz", notReady: errors.New("hooks are being loaded"), status: 503,
			body: "hooks are being loaded\nhook \"a\" waits\n"},
		{name: "home", path: "/", status: 200, body: "home"},
		{name: "a file of home", path: "/status/file", status: 200, body: "home"},
		{name: "discovery", path: "/discovery", status: 200,
			body: "GET /\nGET /metrics\nGET /metrics/hooks\nGET /healthz\nGET /readyz\nGET /discovery\nGET /debug/pprof/*\n"},
		{name: "unknown page", path: "/nothing", status: 404},
		{name: "only reading", path: "/metrics", method: "POST", status: 405},
		{name: "no profiles unasked", path: "/debug/pprof/", status: 404},
		{name: "profiles", path: "/debug/pprof/", profiling: true, status: 200, body: "goroutine"},
	} {
		s, err := NewPages(PagesOptions{
			Address: "127.0.0.1:0", Home: text("home"), Metrics: text("own metrics"), HookMetrics: text("hook metrics"), Profiling: test.profiling,
			Ready: func() ([]string, error) { return []string{`hook "a" waits`}, test.notReady },
			Log:   slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		w := httptest.NewRecorder()
		s.server.Handler.ServeHTTP(w, httptest.NewRequest(cmp.Or(test.method, "GET"), test.path, nil))
		if body := w.Body.String(); w.Code != test.status || !strings.Contains(body, test.body) {
			t.Errorf("%s: %d %q, want %d %q", test.name, w.Code, body, test.status, test.body)
		}
	}
}

func TestAddressTaken(t *testing.T) {
	o := PagesOptions{Address: "127.0.0.1:0", Home: text("home"), Metrics: text(""), HookMetrics: text(""), Log: slog.New(slog.DiscardHandler)}
	first, err := NewPages(o)
	if err != nil {
		t.Fatal(err)
	}
	defer first.listener.Close()
	o.Address = first.Address()
	if _, err := NewPages(o); err == nil || !strings.Contains(err.Error(), "--listen-port") {
		t.Errorf("error %v", err)
	}
}

// A running profile is delivered when the server shuts down.
func TestProfilesEndWithTheServer(t *testing.T) {
	s, err := NewPages(PagesOptions{
		Address: "127.0.0.1:0", Home: text("home"), Metrics: text(""), HookMetrics: text(""), Profiling: true,
		Ready: func() ([]string, error) { return nil, nil }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended, begun, profile := make(chan error), make(chan struct{}), make(chan int, 1)
	s.server.Handler = notifying(s.server.Handler, begun)
	go func() { ended <- s.Run(ctx) }()
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + s.Address() + "/debug/pprof/profile?seconds=86400")
		if err != nil {
			t.Error(err)
			profile <- 0
			return
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("status %d, error %v", res.StatusCode, err)
		}
		profile <- len(text)
	}()
	<-begun
	stop()
	if n := <-profile; n < 100 {
		t.Errorf("the profile has %d bytes", n)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// notifying closes begun when a request arrives.
func notifying(next http.Handler, begun chan<- struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		next.ServeHTTP(w, r)
	})
}
