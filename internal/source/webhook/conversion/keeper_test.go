package conversion

import (
	"context"
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
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// edited is an API server whose CRD another client edits after each write; watching is forbidden.
type edited struct{ writes int }

func (e *edited) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := http.StatusOK, `{"items":[{"metadata":{"name":"`+widgets+`"},"spec":{"conversion":{"strategy":"None"}}}]}`
	switch {
	case r.URL.Query().Get("watch") != "":
		status, body = http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
	case r.Method != http.MethodGet:
		e.writes++
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

// A dispute with another writer is limited by the rate of writes.
func TestDispute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &edited{}
		client, err := kube.NewClient(&rest.Config{Host: "https://offline", Transport: server, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		r := NewRegistrar(RegistrarOptions{Hooks: hooks(widgets, "v1>v2"), Converted: func(string) {},
			Target: complete(keep.Target{Client: client,
				URL: "https://127.0.0.1:1", Bundle: func() []byte { return []byte("ca") }, Log: slog.New(slog.DiscardHandler)})})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if server.writes < 5 || server.writes > 12 {
			t.Errorf("%d writes in ten minutes", server.writes)
		}
	})
}
