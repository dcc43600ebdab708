package debug

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Connections of HTTP/2 are checked by pings: one that hangs is closed after about ten seconds, by both ends.
const (
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
)

func pings() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: pingAfter + pingTimeout}
}

// NewTunnel returns a Client whose requests and streams share one connection to a debug socket, over HTTP/2 without TLS. The first request
// dials. The timeout limits the time until an answer begins. When the connection cannot be made, has ended, or has hung for 10 s, all
// requests fail with the reason: then the caller makes another tunnel. Close ends the connection.
//
// Operators before HTTP/2 on the debug socket reject it: NewClient works with all.
func NewTunnel(dial func(context.Context) (net.Conn, error), timeout time.Duration) *Client {
	t := &tunnel{make: dial}
	http2, protocols := pings(), &http.Protocols{}
	http2.StrictMaxConcurrentRequests = true // beyond the maximum of the operator, 250, requests wait
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{DialContext: t.dial, Protocols: protocols, HTTP2: http2, MaxConnsPerHost: 1, ResponseHeaderTimeout: timeout}
	return &Client{http: &http.Client{Transport: transport}, where: "the tunnel to the debug socket", close: func() {
		transport.CloseIdleConnections()
		t.close()
	}}
}

// tunnel is a connection that is dialed once.
type tunnel struct {
	make func(context.Context) (net.Conn, error)

	mu sync.Mutex
	// dialed: the connection is there, or will be. ended is why it has, or was not made.
	dialed bool
	conn   net.Conn
	ended  error
}

func (t *tunnel) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	t.mu.Lock()
	first, ended := !t.dialed, t.ended
	t.dialed = true
	t.mu.Unlock()
	if !first || ended != nil {
		return nil, cmp.Or(ended, errTunnelEnded)
	}
	conn, err := t.make(ctx)
	if err != nil {
		t.end(err)
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil { // by close
		_ = conn.Close()
		return nil, t.ended
	}
	t.conn = conn
	return &tunneled{conn, t}, nil
}

var errTunnelEnded error = &Problem{text: "the connection to the operator has ended", cause: net.ErrClosed}

func (t *tunnel) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = cmp.Or(t.ended, err)
}

func (t *tunnel) close() {
	t.end(errTunnelEnded)
	t.mu.Lock()
	conn := t.conn
	t.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// tunneled is the connection of a tunnel, which notes why it ends.
type tunneled struct {
	net.Conn
	tunnel *tunnel
}

func (c *tunneled) Read(b []byte) (int, error)  { return c.note(c.Conn.Read(b)) }
func (c *tunneled) Write(b []byte) (int, error) { return c.note(c.Conn.Write(b)) }

func (c *tunneled) note(n int, err error) (int, error) {
	if err != nil {
		c.tunnel.end(err)
	}
	return n, err
}

func (c *tunneled) Close() error {
	c.tunnel.end(errTunnelEnded)
	return c.Conn.Close()
}
