package httpserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
)

// Above the limit, the oldest connection is closed, one in a request last, and one of a known client never: it does not count.
func TestConnectionsAreBounded(t *testing.T) {
	log := &test.Text{}
	c := NewConnections(2, slog.New(slog.NewTextHandler(log, nil)))
	contexts := map[net.Conn]context.Context{}
	dial := func() net.Conn {
		conn, client := net.Pipe()
		t.Cleanup(func() { client.Close() })
		contexts[conn] = c.enter(t.Context(), conn)
		return conn
	}
	open := func(conn net.Conn) bool {
		return slices.ContainsFunc(c.all, func(e *connection) bool { return e.conn == conn })
	}
	closed := func(what string, conn net.Conn) {
		t.Helper()
		if _, err := conn.Write(nil); !errors.Is(err, io.ErrClosedPipe) || open(conn) || len(c.all) > 4 {
			t.Errorf("%s is open: %v", what, err)
		}
	}
	known := dial()
	MarkKnown(contexts[known])
	slow, silent := dial(), dial()
	c.changed(slow, http.StateActive)
	second := dial()
	c.changed(second, http.StateActive)
	closed("the oldest connection without a request", silent)
	third := dial()
	closed("the oldest one, while all others are in requests or known", slow)
	c.changed(second, http.StateIdle)
	MarkKnown(contexts[third])
	fourth := dial()
	if !open(second) {
		t.Error("a connection of a known client counts")
	}
	fifth := dial()
	closed("the oldest of a client that is not known", second)
	if len(c.all) != 4 || !open(known) || !open(third) || !open(fourth) || !open(fifth) {
		t.Error("the connection of a known client was closed")
	}
	c.changed(known, http.StateClosed)
	if len(c.all) != 3 {
		t.Error("a closed connection counts")
	}
	if n := strings.Count(log.String(), "A connection was closed for a newer one"); n != 1 {
		t.Errorf("%d records: %s", n, log)
	}
}
