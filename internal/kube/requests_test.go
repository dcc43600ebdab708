package kube

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// A request without an answer is logged once, with the credential plugin, and named until it is answered.
func TestUnansweredRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := NewRequests(&rest.Config{ExecProvider: &api.ExecConfig{Command: "plug.sh"}}, slog.New(slog.NewTextHandler(&log, nil)))
		transport := r.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Minute)
			return &http.Response{}, nil
		}))
		for _, path := range []string{"/api", "/apis"} {
			req, err := http.NewRequest(http.MethodGet, "https://localhost"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if res, err := transport.RoundTrip(req); err == nil && res.Body != nil {
					_ = res.Body.Close()
				}
			}()
			time.Sleep(time.Second)
		}
		if got := r.Unanswered(); got != "" {
			t.Errorf("after a second: %q", got)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait() // for the record
		if got := r.Unanswered(); !strings.HasPrefix(got, "a request to the API server (GET /api) has had no answer for 22s") ||
			!strings.Contains(got, `"plug.sh"`) {
			t.Errorf("later: %q", got)
		}
		if n := strings.Count(log.String(), "A request to the API server has had no answer"); n != 1 {
			t.Errorf("logged %d times: %s", n, log.String())
		}
		time.Sleep(time.Hour)
		if got := r.Unanswered(); got != "" {
			t.Errorf("after the answer: %q", got)
		}
	})
}
