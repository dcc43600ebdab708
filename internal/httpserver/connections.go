package httpserver

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// maxConnections bounds the connections of a server: each holds buffers, whatever its client does.
const maxConnections = 1000

// connections are the open connections of a server, the oldest first. One above the limit closes one of an unknown client: the oldest
// that is in no request, or else the oldest.
type connections struct {
	limit int
	log   *slog.Logger
	// logged suppresses the records of further closed ones.
	logged logonce.Dedup

	mu  sync.Mutex // guards what follows, and the fields of each connection
	all []*connection
}

type connection struct {
	conn net.Conn
	// active: it is in a request. known: a known client has sent one.
	active, known bool
}

func newConnections(limit int, log *slog.Logger) *connections {
	return &connections{limit: limit, log: log, logged: logonce.Dedup{Every: time.Minute}}
}

// BoundConnections closes a connection of a server above a limit, as New does; before it serves.
func BoundConnections(s *http.Server, limit int, log *slog.Logger) {
	open := newConnections(limit, log)
	s.ConnContext, s.ConnState = open.enter, open.changed
}

type connectionKey struct{}

// enter adds a new connection, and returns the context of its requests.
func (c *connections) enter(ctx context.Context, conn net.Conn) context.Context {
	entry := &connection{conn: conn}
	c.mu.Lock()
	c.all = append(c.all, entry)
	victim := c.victim()
	if victim != nil {
		c.remove(victim.conn)
	}
	c.mu.Unlock()
	if victim != nil {
		_ = victim.conn.Close()
		if suppressed, due := c.logged.Due("", ""); due {
			c.log.Warn("A connection was closed for a newer one, because too many are open", "address", conn.LocalAddr().String(),
				"client", victim.conn.RemoteAddr().String(),
				"limit", c.limit, "again", suppressed, "hint", "restrict the clients of this port with a NetworkPolicy")
		}
	}
	return context.WithValue(ctx, connectionKey{}, entry)
}

// victim returns the connection that is closed for the newest one; nil if there are not too many, or known
// clients have all others.
func (c *connections) victim() *connection {
	if len(c.all) <= c.limit {
		return nil
	}
	var oldest *connection
	for _, entry := range c.all[:len(c.all)-1] {
		switch {
		case entry.known:
		case !entry.active:
			return entry
		case oldest == nil:
			oldest = entry
		}
	}
	return oldest
}

func (c *connections) remove(conn net.Conn) {
	c.all = slices.DeleteFunc(c.all, func(e *connection) bool { return e.conn == conn })
}

// changed is the ConnState of the server.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		c.remove(conn)
		return
	}
	for _, e := range c.all {
		if e.conn == conn {
			e.active = state == http.StateActive
		}
	}
}

// markKnown keeps the connection of a request from being closed for others.
func (c *connections) markKnown(ctx context.Context) {
	if entry, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		entry.known = true
	}
}
