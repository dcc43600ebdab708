package debug

import (
	"cmp"
	"context"
	"errors"
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

// Delays between two connections of a tunnel: the first one, and the longest one, to which they grow.
const (
	firstDelay = 500 * time.Millisecond
	maxDelay   = 10 * time.Second
)

// NewTunnel returns a Client whose requests and streams share one connection to a debug socket, over HTTP/2 without TLS. The first request
// dials, and the first one after the connection has ended, or has hung for 10 s; until the delay is over, requests fail with the reason.
// The timeout limits the time until an answer begins. Close ends the connection.
func NewTunnel(dial func(context.Context) (net.Conn, error), timeout time.Duration) *Client {
	t := &tunnel{make: dial}
	http2, protocols := pings(), &http.Protocols{}
	http2.StrictMaxConcurrentRequests = true // beyond the maximum of the operator, 250, requests wait
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{DialContext: t.dial, Protocols: protocols, HTTP2: http2, MaxConnsPerHost: 1, ResponseHeaderTimeout: timeout}
	return &Client{http: &http.Client{Transport: transport}, where: "the tunnel to the debug socket", close: t.close}
}

// tunnel dials its connections, one at a time.
type tunnel struct {
	make func(context.Context) (net.Conn, error)

	mu sync.Mutex
	// conn is the last connection, ended why it has ended or was not made.
	conn  net.Conn
	ended error
	// dialed is when that was, delay the time until the next one.
	dialed time.Time
	delay  time.Duration
}

func (t *tunnel) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch since := time.Since(t.dialed); {
	case since < t.delay:
		return nil, t.ended
	case since > 2*maxDelay: // it has worked
		t.delay = firstDelay
	default:
		t.delay = min(max(2*t.delay, firstDelay), maxDelay)
	}
	conn, err := t.make(ctx)
	t.dialed, t.ended = time.Now(), cmp.Or(err, errTunnelEnded)
	if err != nil {
		return nil, err
	}
	t.conn = &tunneled{conn, t}
	return t.conn, nil
}

var errTunnelEnded error = &Problem{text: "the connection to the operator has ended", cause: net.ErrClosed}

// close ends the connection, and no other one is made.
func (t *tunnel) close() {
	t.mu.Lock()
	conn := t.conn
	t.dialed, t.delay, t.ended = time.Now(), time.Hour, errTunnelEnded
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
		c.tunnel.mu.Lock()
		defer c.tunnel.mu.Unlock()
		if c.tunnel.conn == c && errors.Is(c.tunnel.ended, errTunnelEnded) {
			c.tunnel.ended = err
		}
	}
	return n, err
}
