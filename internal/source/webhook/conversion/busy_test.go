package conversion

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// busy is an API server that refuses the first request with 429.
type busy struct{ lists int }

func (b *busy) RoundTrip(r *http.Request) (*http.Response, error) {
	status, header := http.StatusOK, http.Header{"Content-Type": {"application/json"}}
	body := `{"items":[{"metadata":{"name":"` + widgets + `"},"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":` +
		`{"url":"https://127.0.0.1:1/` + widgets + `"}}}}}]}`
	if b.lists++; b.lists == 1 {
		status, body = http.StatusTooManyRequests, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`
		header.Set("Retry-After", "1")
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// A busy API server does not keep the paths that it calls from being known at the start.
func TestBusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kube.NewClient(&rest.Config{Host: "https://offline", Transport: &busy{}, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		o := complete(keep.Target{Client: client, URL: "https://127.0.0.1:1", Bundle: func() []byte { return []byte("ca") },
			Log: slog.New(slog.DiscardHandler)})
		var seen []string
		o.Seen = func(_ string, paths []string, _ bool) { seen = append(seen, paths...) }
		NewRegistrar(RegistrarOptions{Hooks: hooks(widgets, "v1>v2"), Target: o}).Look(t.Context())
		if len(seen) != 1 {
			t.Errorf("Look has seen %v", seen)
		}
	})
}
