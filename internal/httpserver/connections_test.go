package httpserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
)

// Above the limit, the oldest connection of a client that is not known is closed, those in a request last.
func TestConnectionsAreBounded(t *testing.T) {
	log := &test.Text{}
	began, end := make(chan struct{}), make(chan struct{})
	s, err := New(Options{
		Address: "127.0.0.1:0", Connections: 3, Log: slog.New(slog.NewTextHandler(log, nil)),
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				began <- struct{}{}
				<-end
			}
		}),
		Knows: func(path, token string) bool { return path == "/known" && token != "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	// A client has its answer before the server knows the connection to be idle.
	changed, idle := s.server.ConnState, make(chan struct{}, 8)
	s.server.ConnState = func(conn net.Conn, state http.ConnState) {
		changed(conn, state)
		if state == http.StateIdle {
			idle <- struct{}{}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(test.Patience))
		return conn
	}
	send := func(conn net.Conn, path string) {
		t.Helper()
		if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(conn net.Conn) {
		t.Helper()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	closed := func(what string, conn net.Conn) {
		t.Helper()
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s is open: %v", what, err)
		}
	}
	known := dial()
	send(known, "/known/"+strings.Repeat("0a", 32))
	receive(known)
	test.Receive(t, idle, "idle connection")
	slow := dial()
	send(slow, "/slow")
	test.Receive(t, began, "request")
	first := dial()
	send(first, "/")
	receive(first)
	test.Receive(t, idle, "idle connection")
	second := dial()
	closed("the oldest connection without a request", first)
	send(second, "/slow")
	test.Receive(t, began, "request")
	third := dial()
	send(third, "/")
	receive(third)
	closed("the oldest one, while all others are in requests or known", slow)
	end <- struct{}{}
	end <- struct{}{}
	receive(second)
	send(known, "/")
	receive(known)
	log.Until(t, "A connection was closed for a newer one", 1)
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d records: %s", n, log)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
