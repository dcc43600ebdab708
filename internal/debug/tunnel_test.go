package debug

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// pipes is a listener whose connections end in this process.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial returns the other end of a new connection.
func (p *pipes) dial(context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, errors.New("nothing listens")
	}
}

// servePipes serves an API on them.
func servePipes(ctx context.Context, api *API, p *pipes) (ended func()) {
	log := slog.New(slog.DiscardHandler)
	s := &Server{log: log, served: []served{{p, api, true}}}
	var serving sync.WaitGroup
	serving.Go(func() { s.Run(ctx) })
	return serving.Wait
}

// over dials a connection that is there, once.
func over(conn net.Conn) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		dialed := conn
		conn = nil
		if dialed == nil {
			return nil, &Problem{text: "there is no other connection"}
		}
		return dialed, nil
	}
}

// tunnelTo returns a tunnel to a socket.
func tunnelTo(t *testing.T, place Place) *Client {
	t.Helper()
	c := NewTunnel(place.Dial, time.Minute)
	t.Cleanup(c.Close)
	return c
}

// Ten streams and a hundred requests at one time share one connection to the socket.
func TestTunnel(t *testing.T) {
	o := operate(theOperator())
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	serve(t, ServerOptions{API: o.api(), Place: place, Log: slog.New(slog.DiscardHandler)})
	c := tunnelTo(t, place)
	var began, all sync.WaitGroup
	for range 10 {
		began.Add(1)
		all.Go(func() {
			body, err := c.Get(t.Context(), "/tail.json")
			began.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer body.Close()
			lines := bufio.NewScanner(body)
			for _, kind := range []string{"began", "printed", "ended"} {
				if !lines.Scan() || !strings.Contains(lines.Text(), `"kind":"`+kind+`"`) {
					t.Errorf("a stream has %q, not %s", lines.Text(), kind)
				}
			}
		})
	}
	for range 100 {
		all.Go(func() {
			if text, err := get(t, c, "/status.json"); err != nil || !strings.Contains(text, `"version":"v1.2.3"`) {
				t.Errorf("status: %s %v", text, err)
			}
		})
	}
	began.Wait()
	record(o.history, "17", "big.py", history.Failed, "boom")
	all.Wait()
	// Commands have HTTP/1.1 on the same socket.
	if text, err := get(t, NewClient(place, time.Minute), "/"); err != nil || text != "debug endpoint is alive" {
		t.Errorf("a command: %s %v", text, err)
	}
	c.Close()
	if _, err := get(t, c, "/"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A connection over TCP stays HTTP/1.1.
func TestNoTunnelOverTCP(t *testing.T) {
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	s, _ := serve(t, ServerOptions{API: operate(theOperator()).api(), Place: place, TCP: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	conn, err := net.Dial("tcp", s.served[1].listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := NewTunnel(over(conn), time.Minute)
	defer c.Close()
	if text, err := get(t, c, "/"); err == nil {
		t.Errorf("HTTP/2 over TCP answers %s", text)
	}
}

// stuck is a connection that delivers nothing any more when it hangs, and takes what is written.
type stuck struct {
	net.Conn
	hangs chan struct{}
	// delivered is called after each delivery.
	received chan []byte
	rest     []byte
	closed   chan struct{}
	once     sync.Once
}

func newStuck(c net.Conn) *stuck {
	s := &stuck{Conn: c, hangs: make(chan struct{}), received: make(chan []byte), closed: make(chan struct{})}
	go func() {
		defer close(s.received)
		for {
			b := make([]byte, 64<<10)
			n, err := c.Read(b)
			if err != nil {
				return
			}
			select {
			case <-s.hangs:
				continue // it is lost
			default:
			}
			select {
			case s.received <- b[:n]:
			case <-s.hangs:
			case <-s.closed:
				return
			}
		}
	}()
	return s
}

func (s *stuck) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		text, ok := <-s.received
		if !ok {
			return 0, io.EOF
		}
		s.rest = text
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stuck) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// A tunnel that hangs is noticed by pings: its stream ends with an error, and later requests fail.
func TestTunnelHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		ended := servePipes(ctx, operate(theOperator()).api(), p)
		conn, err := p.dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		hanging := newStuck(conn)
		c := NewTunnel(over(hanging), time.Minute)
		body, err := c.Get(ctx, "/tail.json")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // pings are answered
		began := time.Now()
		close(hanging.hangs)
		if n, err := body.Read(make([]byte, 1)); err == nil {
			t.Errorf("the stream delivers %d bytes", n)
		}
		if took := time.Since(began); took > pingAfter+pingTimeout+time.Second {
			t.Errorf("it was noticed after %s", took)
		}
		body.Close()
		if text, err := get(t, c, "/"); err == nil {
			t.Errorf("afterwards: %q", text)
		}
		c.Close()
		cancel()
		ended()
	})
}

// explained is a connection that knows why it has ended.
type explained struct{ net.Conn }

func (e explained) Read(b []byte) (int, error) {
	n, err := e.Conn.Read(b)
	if err != nil {
		err = &Problem{text: "the Pod is gone"}
	}
	return n, err
}

// A tunnel whose connection has ended reports why, ends its streams, and makes another one with growing delay.
func TestTunnelConnectsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		ended := servePipes(ctx, operate(theOperator()).api(), p)
		began, dialed, fails, last := time.Now(), []string{}, error(nil), net.Conn(nil)
		c := NewTunnel(func(ctx context.Context) (conn net.Conn, err error) {
			dialed = append(dialed, fmt.Sprint(time.Since(began).Seconds()))
			if fails != nil {
				return nil, fails
			}
			last, err = p.dial(ctx)
			return explained{last}, err
		}, time.Minute)
		body, err := c.Get(ctx, "/tail.json")
		if err != nil {
			t.Fatal(err)
		}
		last.Close()
		if text, err := io.ReadAll(body); len(text) > 0 || err == nil {
			t.Errorf("the stream delivers %q, %v", text, err)
		}
		body.Close()
		if _, err := get(t, c, "/"); err == nil || err.Error() != "the Pod is gone" {
			t.Errorf("the error is %v", err)
		}
		time.Sleep(40 * time.Second)
		fails = &Problem{text: "no Pod"}
		for range 400 { // 40 s
			if _, err := get(t, c, "/"); !errors.Is(err, fails) {
				t.Errorf("the error is %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got, want := strings.Join(dialed, " "), "0 40 40.5 41.5 43.5 47.5 55.5 65.5 75.5"; got != want {
			t.Errorf("dialed at %s, want %s", got, want)
		}
		fails = nil
		time.Sleep(maxDelay)
		if text, err := get(t, c, "/"); err != nil {
			t.Errorf("%s %v", text, err)
		}
		c.Close()
		cancel()
		ended()
	})
}
