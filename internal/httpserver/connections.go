package httpserver

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// maxConnections bounds the connections of a server: each holds buffers, whatever its client does.
const maxConnections = 1000

// connections are those of a server, the oldest first. One above the limit closes another one of a client that is not known: the oldest
// that is in no request, or else the oldest.
type connections struct {
	limit int
	log   *slog.Logger
	// logged suppresses the records of further closed ones.
	logged logonce.Dedup

	mu   sync.Mutex // guards what follows, and the fields of each connection
	all  *list.List
	open map[net.Conn]*list.Element
}

type connection struct {
	conn net.Conn
	// active: it is in a request. known: a known client has sent one.
	active, known bool
}

func newConnections(limit int, log *slog.Logger) *connections {
	return &connections{limit: limit, log: log, logged: logonce.Dedup{Every: time.Minute}, all: list.New(), open: map[net.Conn]*list.Element{}}
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
	c.open[conn] = c.all.PushBack(entry)
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

// victim returns the connection that is closed for the newest one; nil if there are not too many, or all others are those of known clients.
func (c *connections) victim() *connection {
	if c.all.Len() <= c.limit {
		return nil
	}
	var oldest *connection
	for e := c.all.Front(); e != c.all.Back(); e = e.Next() {
		switch entry := e.Value.(*connection); {
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
	if e, ok := c.open[conn]; ok {
		c.all.Remove(e)
		delete(c.open, conn)
	}
}

// changed is the ConnState of the server.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := c.open[conn]; {
	case state == http.StateClosed || state == http.StateHijacked:
		c.remove(conn)
	case e != nil:
		e.Value.(*connection).active = state == http.StateActive
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
