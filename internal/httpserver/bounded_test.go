package httpserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
)

// served runs a server until the end of the test, and returns how to dial it.
func served(t *testing.T, o Options, secure bool) (dial func() net.Conn) {
	t.Helper()
	certificate := test.NewCertificate(t)
	o.Address, o.Log = "127.0.0.1:0", slog.New(slog.DiscardHandler)
	if secure {
		o.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate.Certificate, nil }
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func() net.Conn {
		conn, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		if secure {
			conn = tls.Client(conn, &tls.Config{RootCAs: certificate.Pool, ServerName: "127.0.0.1", NextProtos: []string{"h2", "http/1.1"}})
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(test.Patience))
		return conn
	}
}

// The lines of each header on a connection are bounded, whatever is around them. Bodies are not.
func TestHeaderLines(t *testing.T) {
	lines := func(n int) (all string) {
		for i := range n {
			all += fmt.Sprintf("%x:\r\n", i)
		}
		return all
	}
	const get, post = "GET / HTTP/1.1\r\nHost: x\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: "
	for _, row := range []struct{ name, text, want string }{
		{"a few lines", get + lines(90) + "\r\n", "200"},
		{"many lines", get + lines(110) + "\r\n", "431"},
		{"many lines, without an end", get + lines(1000), "431"},
		{"many lines after another request", get + "\r\n" + get + lines(110) + "\r\n", "200 431"},
		{"many lines after a body", post + "1\r\n\r\nx" + get + lines(1500) + "\r\n", "200 431"},
		{"a few lines, repeatedly", strings.Repeat(get+lines(90)+"\r\n", 9), strings.TrimSpace(strings.Repeat("200 ", 9))},
		{"many lines that end without a return", get + strings.ReplaceAll(lines(110), "\r", "") + "\n", "431"},
		{"many lines of a body", post + "300\r\n\r\n" + strings.Repeat("\r\n", 150) + get + "\r\n", "200 200"},
	} {
		for _, secure := range []bool{false, true} {
			for name, split := range map[string]func(io.Reader) io.Reader{"": nil, ", byte by byte": iotest.OneByteReader} {
				t.Run(fmt.Sprintf("%s%s, tls=%t", row.name, name, secure), func(t *testing.T) {
					conn := served(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
					})}, secure)()
					var text io.Reader = strings.NewReader(row.text)
					if split != nil {
						text = split(text)
					}
					sent := make(chan struct{})
					go func() {
						defer close(sent)
						_, _ = io.Copy(struct{ io.Writer }{conn}, text)
					}()
					var got []string
					for in := bufio.NewReader(conn); len(got) < len(strings.Fields(row.want)); {
						res, err := http.ReadResponse(in, nil)
						if err != nil {
							t.Fatalf("%v, after %v", err, got)
						}
						_ = res.Body.Close()
						got = append(got, fmt.Sprint(res.StatusCode))
					}
					if strings.Join(got, " ") != row.want {
						t.Errorf("got %v, want %s", got, row.want)
					}
					_ = conn.Close()
					<-sent
				})
			}
		}
	}
}

// A header may be as large as the server allows, also with TLS.
func TestHeaderBytes(t *testing.T) {
	for _, row := range []struct {
		limit, size int
		want        string
	}{{2 << 10, 5 << 10, "200"}, {2 << 10, 8 << 10, "431"}, {MaxHeaderBytes, 60 << 10, "200"}, {MaxHeaderBytes, 70 << 10, "431"}} {
		for _, secure := range []bool{false, true} {
			conn := served(t, Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), MaxHeaderBytes: row.limit}, secure)()
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nCookie: "+strings.Repeat("x", row.size)+"\r\n\r\n")
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%d of %d bytes, tls=%t: %v", row.size, row.limit, secure, err)
				continue
			}
			_ = res.Body.Close()
			if fmt.Sprint(res.StatusCode) != row.want {
				t.Errorf("%d of %d bytes, tls=%t: got %d, want %s", row.size, row.limit, secure, res.StatusCode, row.want)
			}
		}
	}
}

// A handshake that does not end is not kept, and neither is a message after it.
func TestHandshakeBytes(t *testing.T) {
	conn := served(t, Options{Handler: http.NotFoundHandler()}, true)().(*tls.Conn).NetConn()
	record := "\x16\x03\x01\x40\x00" + strings.Repeat("\x01", 16<<10) // a ClientHello of 64 KiB begins
	begin := strings.Replace(record, "\x01\x01\x01\x01", "\x01\x00\xff\xff", 1)
	sent, err := io.Copy(struct{ io.Writer }{conn}, strings.NewReader(begin+record))
	if err == nil {
		_, err = io.Copy(io.Discard, conn)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after %d bytes the connection is open", sent)
	}
}

// As many reviews as an API server sends concurrently are answered when they begin at the same moment, while other clients hold all
// connections that they can get.
func TestReviewsThatBeginTogether(t *testing.T) {
	const reviews, limit = 600, 1000
	var entered sync.WaitGroup
	entered.Add(reviews)
	dial := served(t, Options{
		Component: "test", MaxHeaderBytes: 2 << 10, Connections: NewConnections(limit, slog.New(slog.DiscardHandler)),
		Knows: func(path, _ string) bool { return path == "/review" },
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			entered.Done()
			entered.Wait()
		}),
	}, true)
	for range limit + 100 {
		_, _ = io.WriteString(dial().(*tls.Conn).NetConn(), "\x16\x03\x01")
	}
	var all sync.WaitGroup
	for range reviews {
		conn := dial()
		all.Go(func() {
			_, _ = io.WriteString(conn, "POST /review HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Error(err)
				entered.Done()
				return
			}
			if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
				t.Error(res.Status)
			}
		})
	}
	all.Wait()
}
