package debug

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestStreamsAreBounded: clients that open streams over the address do not get more than their share, and take none from clients of
// the socket.
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
	for range addressPlaces {
		if status, text := open("/tail.json"); status != http.StatusOK {
			t.Fatalf("a tail: %d %s", status, text)
		}
	}
	const want = `{"error":"32 requests are open, which is the most",` +
		`"hint":"end some, or use the debug socket: kubectl exec","code":"tooMany"}`
	for _, path := range []string{"/tail.json", "/hook/big.py/why.json"} {
		if status, text := open(path); status != http.StatusTooManyRequests || strings.TrimSpace(text) != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	// The socket has places of its own.
	c := NewClient(place, time.Minute)
	for range userStreams {
		body, err := c.Get(t.Context(), "/tail.json")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { body.Close() })
	}
	if _, err := c.Get(t.Context(), "/tail.json"); err == nil || !strings.Contains(err.Error(), "64 streams are open") {
		t.Errorf("one more: %v", err)
	}
	if text, err := get(t, NewClient(place, time.Minute), "/"); err != nil || text != "debug endpoint is alive\n" {
		t.Errorf("a command: %s %v", text, err)
	}
}

// pipes is a listener whose connections end in this process.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial returns the other end of a new connection.
func (p *pipes) dial(context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, errors.New("nothing listens")
	}
}

// TestSlowReaders: a client of the address that reads a large answer slowly gets all of it; one that reads none of it is cut off.
func TestSlowReaders(t *testing.T) {
	const size = 1 << 20
	for name, pause := range map[string]time.Duration{"reads slowly": unread / 20, "has stopped": unread + time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := New(Options{Log: slog.New(slog.DiscardHandler)})
				api.Show([]Topic{{Routes: []Route{{Method: "GET", Path: "/large", show: func(request) (answer, error) {
					return answer{text: strings.Repeat("x", size)}, nil
				}}}}})
				ctx, cancel := context.WithCancel(t.Context())
				p := newPipes()
				server := &Server{log: slog.New(slog.DiscardHandler), served: []served{{p, api, false}}}
				var serving sync.WaitGroup
				defer serving.Wait()
				defer cancel()
				serving.Go(func() { server.Run(ctx) })
				conn, err := p.dial(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				read := 0
				for piece := make([]byte, size/10); ; time.Sleep(pause) {
					n, err := io.ReadFull(conn, piece)
					if read += n; err != nil {
						break
					}
				}
				if complete := read >= size; complete != (pause < unread) {
					t.Errorf("read %d bytes", read)
				}
			})
		})
	}
}
