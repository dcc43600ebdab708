package httpserver

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// Connections are the open connections of a server, or of several, the oldest first. Each holds buffers, whatever its client does, so one
// of an unknown client above the limit closes another one: the oldest that is in no request, or else the oldest.
type Connections struct {
	limit int
	log   *slog.Logger
	// logged suppresses the records of further closed ones.
	logged logonce.Dedup

	mu  sync.Mutex // guards what follows, and the fields of each connection
	all []*connection
}

type connection struct {
	of   *Connections
	conn net.Conn
	// active: it is in a request. known: a known client has sent one.
	active, known bool
}

// NewConnections returns Connections for limit unknown clients.
func NewConnections(limit int, log *slog.Logger) *Connections {
	return &Connections{limit: limit, log: log, logged: logonce.Dedup{Every: time.Minute}}
}

// Bound bounds the connections of a server, and the memory of each. The server serves the returned listener, with TLS if it has a config.
func (c *Connections) Bound(s *http.Server, l net.Listener) net.Listener {
	s.ConnContext, s.ConnState = c.enter, c.changed
	return bounded{l, s.TLSConfig, s.MaxHeaderBytes + recordBytes}
}

type connectionKey struct{}

// enter adds a new connection, and returns the context of its requests.
func (c *Connections) enter(ctx context.Context, conn net.Conn) context.Context {
	entry := &connection{of: c, conn: conn}
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

// victim returns the connection that is closed for the newest one; nil if unknown clients have not too many.
func (c *Connections) victim() *connection {
	var unknown int
	var idle, oldest *connection
	for _, entry := range c.all[:len(c.all)-1] {
		if entry.known {
			continue
		}
		unknown, oldest = unknown+1, cmp.Or(oldest, entry)
		if !entry.active {
			idle = cmp.Or(idle, entry)
		}
	}
	if unknown < c.limit {
		return nil
	}
	return cmp.Or(idle, oldest)
}

func (c *Connections) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all) == 0
}

func (c *Connections) remove(conn net.Conn) {
	c.all = slices.DeleteFunc(c.all, func(e *connection) bool { return e.conn == conn })
}

// changed is the ConnState of the server.
func (c *Connections) changed(conn net.Conn, state http.ConnState) {
	if b, ok := conn.(interface{ reads(header bool) }); ok && (state == http.StateActive || state == http.StateIdle) {
		b.reads(state == http.StateIdle)
	}
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

// MarkKnown keeps the connection of a request from being closed for others.
func MarkKnown(ctx context.Context) {
	if entry, ok := ctx.Value(connectionKey{}).(*connection); ok {
		entry.of.mu.Lock()
		defer entry.of.mu.Unlock()
		entry.known = true
	}
}
