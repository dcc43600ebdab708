package debug

import (
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPlaces: each client has its places, all together have theirs, and a place that is left is free.
func TestPlaces(t *testing.T) {
	p := newPlaces(3, 2)
	take := func(client string, want string) func() {
		t.Helper()
		leave, err := p.take(client, "requests", "end some")
		if want == "" != (err == nil) || err != nil && err.Error() != want {
			t.Errorf("%s: %v", client, err)
		}
		return leave
	}
	first := take("a", "")
	take("a", "")
	take("a", "a has 2 open requests, which is the most for a client")
	last := take("b", "")
	take("c", "3 requests are open, which is the most for all clients")
	first()
	take("c", "")
	last()
	take("a", "")
	if len(p.of) != 2 {
		t.Errorf("clients without a place are kept: %v", p.of)
	}
}

// TestStreamsAreBounded: a client that opens streams over the address does not get more than its share, and takes none of those of the
// socket.
func TestStreamsAreBounded(t *testing.T) {
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	o := operate(theOperator())
	s, _ := serve(t, ServerOptions{API: o.api(), Place: place, TCP: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	address := "http://" + s.served[1].listener.Addr().String()
	open := func(path string) (status int, text string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		if res.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(res.Body)
			text = string(body)
		}
		return res.StatusCode, text
	}
	for range addressPlacesEach {
		if status, text := open("/tail.json"); status != http.StatusOK {
			t.Fatalf("a tail: %d %s", status, text)
		}
	}
	const want = `{"error":"127.0.0.1 has 8 open requests, which is the most for a client",` +
		`"hint":"end some, or use the debug socket: kubectl exec","code":"tooMany"}`
	for _, path := range []string{"/tail.json", "/hook/big.py/why.json"} {
		if status, text := open(path); status != http.StatusTooManyRequests || strings.TrimSpace(text) != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	// The socket has places of its own.
	c := tunnelTo(t, place)
	for range userStreams {
		body, err := c.Get(t.Context(), "/tail.json")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { body.Close() })
	}
	if _, err := c.Get(t.Context(), "/tail.json"); err == nil || !strings.Contains(err.Error(), "has 64 open streams") {
		t.Errorf("one more: %v", err)
	}
	if text, err := get(t, NewClient(place, time.Minute), "/"); err != nil || text != "debug endpoint is alive" {
		t.Errorf("a command: %s %v", text, err)
	}
}
