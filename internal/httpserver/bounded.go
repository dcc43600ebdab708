package httpserver

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"time"
)

const (
	// headerLines bounds the lines of a header: net/http keeps some 100 bytes for each, however short it is.
	headerLines = 100
	// handshakeBytes bounds a handshake, with certificates of the client; recordBytes what follows it beside a header: the tolerance of
	// net/http, and one record, which may end the header.
	handshakeBytes, recordBytes = 16 << 10, 22 << 10
	headerTimeout               = 10 * time.Second
)

// bounded is a listener whose connections bound the memory that a client can take before its request is known: the bytes of a handshake
// and the lines of a header. net/http bounds the bytes of a header. It speaks HTTP/1.1 only, because the connections are no *tls.Conn: the
// API server sends reviews with no other version, and each stream of HTTP/2 would have a header.
type bounded struct {
	net.Listener
	tls *tls.Config
	// header is the number of bytes to the end of a header, with TLS.
	header int
}

func (b bounded) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if err != nil || b.tls == nil {
		return &plain{Conn: conn}, err
	}
	below := &raw{conn, handshakeBytes}
	return &secure{plain{Conn: tls.Server(below, b.tls)}, below, b.header}, nil
}

// plain is a connection that bounds the lines of a header, but for the 4 KiB that net/http may have read with a body before it.
type plain struct {
	net.Conn
	// read reports that the header has been read; before, lines is how many of its lines have, and line how many bytes of the next one.
	read        bool
	lines, line int
	// rest was received with the end of a header.
	rest []byte
}

// errHeader is an error after which net/http closes the connection without a response.
var errHeader = &net.OpError{Op: "read", Err: errors.New("the header is too large")}

func (c *plain) Read(p []byte) (n int, err error) {
	if n = copy(p, c.rest); n > 0 {
		c.rest = c.rest[n:]
	} else {
		n, err = c.Conn.Read(p)
	}
	if c.read {
		return n, err
	}
	for i, b := range p[:n] {
		switch {
		case b == '\n' && c.line > 0:
			c.lines, c.line = c.lines+1, 0
		case b == '\n' && c.lines > 0 && c.lines <= headerLines:
			c.read, c.rest = true, append(bytes.Clone(p[i+1:n]), c.rest...)
			return i + 1, nil
		case b != '\n' && b != '\r':
			c.line++
		}
	}
	if c.lines > headerLines {
		_, _ = io.WriteString(c.Conn, "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n")
		return 0, errHeader
	}
	return n, err
}

// CloseWrite lets net/http end a connection whose client still sends.
func (c *plain) CloseWrite() error { return c.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// reads is called when the header has been read, and when the next one is expected.
func (c *plain) reads(header bool) { c.read, c.lines, c.line = !header, 0, 0 }

// raw is a connection below TLS that delivers left bytes.
type raw struct {
	net.Conn
	left int
}

func (c *raw) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeader
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// secure is a connection with TLS.
type secure struct {
	plain
	raw    *raw
	header int
}

// ConnectionState performs the handshake, because net/http calls it first. Its error is that of the next Read.
func (c *secure) ConnectionState() tls.ConnectionState {
	conn := c.Conn.(*tls.Conn)
	_ = conn.SetDeadline(time.Now().Add(headerTimeout))
	_ = conn.Handshake()
	_ = conn.SetDeadline(time.Time{})
	c.raw.left = c.header
	return conn.ConnectionState()
}

func (c *secure) reads(header bool) {
	c.plain.reads(header)
	c.raw.left = map[bool]int{true: c.header, false: math.MaxInt}[header]
}
