package httpserver

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// A client that is still sending a large review gets the answer, and the connection is closed: the next one may lead to another replica.
func TestElsewhere(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { Elsewhere(w, "no hook") }))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	for range 20 {
		response, err := server.Client().Post(server.URL, "application/json", bytes.NewReader(make([]byte, 3<<20)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		after := response.Header.Get("Retry-After")
		if err != nil || response.StatusCode != http.StatusServiceUnavailable || after != "1" || string(text) != "no hook\n" {
			t.Fatalf("%s %q: %v", response.Status, text, err)
		}
	}
	if n := connections.Load(); n != 20 {
		t.Errorf("20 requests in %d connections", n)
	}
}
