package debug

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Dial connects to the debug socket.
type Dial func(context.Context) (net.Conn, error)

// Connections of HTTP/2 are checked by pings: one that hangs is closed after about ten seconds, by both ends.
const (
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
)

// Delays before another attempt to connect, after attempts that failed.
const (
	redialMin = 250 * time.Millisecond
	redialMax = 10 * time.Second
)

func pings() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: pingAfter + pingTimeout}
}

func unencryptedHTTP2() *http.Protocols {
	p := &http.Protocols{}
	p.SetUnencryptedHTTP2(true)
	return p
}

// NewTunnel returns a Client whose requests and streams share one connection, over HTTP/2 without TLS. It dials with the first request, and
// again with the first one after the connection has ended; a request while no connection can be made fails with the reason, and further
// attempts follow with a delay that grows to 10 s. A connection that hangs is closed, and fails its requests, after 10 s. The timeout
// limits the time until an answer begins. Close ends the connection.
//
// Operators before HTTP/2 on the debug socket reject it: NewClient works with all.
func NewTunnel(dial Dial, timeout time.Duration) *Client {
	t := &tunnel{dial: dial, now: time.Now}
	http2 := pings()
	http2.StrictMaxConcurrentRequests = true // beyond the maximum of the operator, 250, requests wait
	transport := &http.Transport{
		DialContext: t.connect, Protocols: unencryptedHTTP2(), HTTP2: http2, MaxConnsPerHost: 1, ResponseHeaderTimeout: timeout,
	}
	return &Client{http: &http.Client{Transport: transport}, where: "the tunnel to the debug socket", close: func() {
		transport.CloseIdleConnections()
		t.end()
	}}
}

// tunnel dials, one connection at a time.
type tunnel struct {
	dial Dial
	now  func() time.Time

	mu sync.Mutex
	// conn is the last connection, nil before the first one.
	conn net.Conn
	// delay is that after the last failure, which was err, and until its end; 0 after a connection that has worked.
	delay time.Duration
	until time.Time
	err   error
	ended bool
}

func (t *tunnel) connect(ctx context.Context, _, _ string) (net.Conn, error) {
	t.mu.Lock()
	waiting, err := t.now().Before(t.until), t.err
	ended := t.ended
	t.mu.Unlock()
	switch {
	case ended:
		return nil, net.ErrClosed
	case waiting:
		return nil, err
	}
	conn, err := t.dial(ctx)
	if err != nil {
		t.failed(err)
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	t.conn = conn
	return &tunneled{Conn: conn, tunnel: t}, nil
}

func (t *tunnel) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.delay = min(max(2*t.delay, redialMin), redialMax)
	t.until, t.err = t.now().Add(t.delay), err
}

func (t *tunnel) succeeded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.delay, t.until = 0, time.Time{}
}

// end closes the connection, and dials no other.
func (t *tunnel) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.conn != nil {
		_ = t.conn.Close()
	}
}

// tunneled is a connection of a tunnel. One that ends before anything was received has failed.
type tunneled struct {
	net.Conn
	tunnel *tunnel
	// received is used by the one goroutine that reads.
	received bool
}

func (c *tunneled) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case n > 0 && !c.received:
		c.received = true
		c.tunnel.succeeded()
	case err != nil && !c.received:
		c.tunnel.failed(err)
	}
	return n, err
}
