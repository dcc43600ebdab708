package conversion

import (
	"bytes"
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

// busy is an API server that refuses the first list with 429; watching is forbidden.
type busy struct{ lists int }

func (b *busy) RoundTrip(r *http.Request) (*http.Response, error) {
	status, header := http.StatusOK, http.Header{"Content-Type": {"application/json"}}
	body := `{"items":[{"metadata":{"name":"` + widgets + `"},"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":` +
		`{"url":"https://127.0.0.1:1/` + widgets + `"}}}}}]}`
	switch {
	case r.URL.Query().Get("watch") != "":
		status, body = http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
	case r.Method == http.MethodGet:
		if b.lists++; b.lists == 1 {
			status, body = http.StatusTooManyRequests, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`
			header.Set("Retry-After", "1")
		}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// A busy API server does not keep the paths that it calls from being known at the start, and is no problem to report.
func TestBusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := func(seen *[]string, failed *[]error, log io.Writer) RegistrarOptions {
			client, err := kube.NewClient(&rest.Config{Host: "https://offline", Transport: &busy{}, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			o := complete(keep.Target{Client: client, URL: "https://127.0.0.1:1", Bundle: func() []byte { return []byte("ca") },
				Log: slog.New(slog.NewTextHandler(log, nil))})
			o.Seen = func(_ string, paths []string, _ bool) { *seen = append(*seen, paths...) }
			o.Report = func(_ hook.Kind, _ []string, _ string, err error) {
				if err != nil {
					*failed = append(*failed, err)
				}
			}
			return RegistrarOptions{Hooks: hooks(widgets, "v1>v2"), Target: o}
		}
		var seen []string
		var failed []error
		var log bytes.Buffer
		NewRegistrar(target(&seen, &failed, &log)).Look(t.Context())
		if len(seen) != 1 {
			t.Errorf("Look has seen %v", seen)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_ = NewRegistrar(target(&seen, &failed, &log)).Run(ctx)
		if len(failed) > 0 || strings.Contains(log.String(), "WARN") && strings.Contains(log.String(), "Will retry") {
			t.Errorf("reported %v, logged\n%s", failed, &log)
		}
	})
}
