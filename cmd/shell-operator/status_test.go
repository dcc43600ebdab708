package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestStatusByURL reads the readiness of an operator on another machine, as helm test does.
func TestStatusByURL(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+"\nhook waits")
	}))
	defer server.Close()
	for _, c := range []struct {
		status    int
		url, want string
	}{
		{http.StatusOK, server.URL, "<nil>"},
		{http.StatusServiceUnavailable, server.URL + "/", "the operator is not ready: status 503"},
		{http.StatusOK, "http://127.0.0.1:1", "the operator does not answer: "},
		{http.StatusOK, "%", "--url: "},
	} {
		status = c.status
		var out strings.Builder
		root := newRootCommand(newSettings(nil), &out, io.Discard)
		root.SetArgs([]string{"status", "--url", c.url})
		err := root.Execute()
		got := "<nil>"
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.url, got, c.want)
		}
		if strings.HasPrefix(c.url, server.URL) && out.String() != "GET /readyz\nhook waits\n" {
			t.Errorf("it prints %q", out.String())
		}
	}
}
