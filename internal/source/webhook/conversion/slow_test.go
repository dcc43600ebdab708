package conversion

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// Connections that announce reviews and send nothing do not block reviews of the API server.
func TestSlowClientsDoNotBlockReviews(t *testing.T) {
	h := handler(Options{Parallel: 1, Queue: 1}, func(context.Context, []byte) (*effect.ConversionAnswer, error) { return smallAnswer, nil })
	server := httptest.NewServer(h)
	defer server.Close()
	for range 5 {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", widgets)
		// That is sent when the handler begins to read.
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	if m := ask(t, h, t.Context(), ""); m != "" {
		t.Error(m)
	}
	server.CloseClientConnections()
}

// Who makes up names of CRDs, and sends what is no review, does not fill the log.
func TestStrangersAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	h := NewHandler(Options{Hooks: hooks(widgets, "v1>v2"), Log: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 200 {
		r := httptest.NewRequest(http.MethodPost, fmt.Sprintf("/things-%d.example.com", i), strings.NewReader("no review"))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d records:\n%.500s", n, &log)
	}
}
