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

	"github.com/shell-operator/shell-operator/internal/kube"
)

// roundTripper is an API server.
type roundTripper func(*http.Request) (status int, body string)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := f(r)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func offline(t *testing.T, server roundTripper) *follower {
	t.Helper()
	client, err := kube.NewClient(&rest.Config{Host: "https://offline", Transport: server, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRegistrar(RegistrarOptions{Client: client, Hooks: hooks(widgets, "v1>v2"), URL: "https://127.0.0.1:1",
		Bundle: func() []byte { return []byte("ca") }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return newFollower(r, widgets)
}

// Somebody else who writes the same field at once, again and again, does not make us write as fast.
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
			writes = append(writes, time.Since(start))
			return http.StatusOK, edited()
		})
		for time.Since(start) < 2*time.Minute {
			c, err := readCRD([]byte(edited()))
			if err != nil {
				t.Fatal(err)
			}
			f.changed(c)
			time.Sleep(max(time.Millisecond, f.reconcile(t.Context())))
		}
		if n, most := len(writes), writeAtOnce+int(2*time.Minute/writeEvery); n < writeAtOnce || n > most {
			t.Errorf("%d writes in two minutes: %v", n, writes)
		}
	})
}

// What the API server refuses is tried again, less and less often.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes []time.Duration
		start := time.Now()
		f := offline(t, func(*http.Request) (int, string) {
			writes = append(writes, time.Since(start))
			return http.StatusUnprocessableEntity, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Invalid","code":422}`
		})
		c, err := readCRD([]byte(`{"metadata":{"resourceVersion":"1"}}`))
		if err != nil {
			t.Fatal(err)
		}
		f.changed(c)
		for time.Since(start) < time.Minute {
			time.Sleep(f.reconcile(context.WithoutCancel(t.Context())))
		}
		if got, want := fmt.Sprint(writes), "[0s 1s 2s 3s 4s 30s]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// What the API server had before our writing comes late, and is nobody's edit.
func TestLateNews(t *testing.T) {
	f := offline(t, func(r *http.Request) (int, string) {
		return http.StatusOK, `{"metadata":{"resourceVersion":"10"},"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://127.0.0.1:1/widgets.acme.dev","caBundle":"Y2E="},"conversionReviewVersions":["v1","v1beta1"]}}}}`
	})
	for _, version := range []string{"8", "9", "12"} {
		c, err := readCRD([]byte(`{"metadata":{"resourceVersion":"` + version + `"},"spec":{"conversion":{"strategy":"None"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		f.changed(c)
		before := f.writes.Tokens()
		f.reconcile(t.Context())
		if wrote := before-f.writes.Tokens() > 0.5; wrote != (version != "9") {
			t.Errorf("version %s: wrote is %v", version, wrote)
		}
	}
}
