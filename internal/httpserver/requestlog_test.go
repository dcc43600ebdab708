package httpserver

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		handler := logRequests(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})), "admissionWebhook", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/slow":
				time.Sleep(1500 * time.Millisecond)
				_, _ = io.WriteString(w, "12345")
				_, _ = io.WriteString(w, "678")
			case "/missing":
				http.Error(w, "no", http.StatusNotFound)
			}
		}))
		for _, request := range []string{"POST /slow?timeout=10s", "PUT /missing", "GET /"} {
			method, uri, _ := strings.Cut(request, " ")
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, uri, nil))
		}
		want := ""
		for _, record := range []string{
			`http_method=POST uri="/slow?timeout=10s" resp_status=200 resp_bytes_length=8 resp_elapsed_ms=1500`,
			`http_method=PUT uri=/missing resp_status=404 resp_bytes_length=3 resp_elapsed_ms=0`,
			`http_method=GET uri=/ resp_status=200 resp_bytes_length=0 resp_elapsed_ms=0`,
		} {
			want += fmt.Sprintf("level=INFO msg=complete operator.component=admissionWebhook %s\n", record)
		}
		if got := log.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}
