package debug

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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

// counting counts connections.
func counting(n *atomic.Int32, dial Dial) Dial {
	return func(ctx context.Context) (net.Conn, error) {
		n.Add(1)
		return dial(ctx)
	}
}

// Ten streams and a hundred requests at one time share one connection to the socket.
func TestTunnel(t *testing.T) {
	o := operate(theOperator())
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	serve(t, ServerOptions{API: o.api(), Place: place, Log: slog.New(slog.DiscardHandler)})
	var dialed atomic.Int32
	c := NewTunnel(counting(&dialed, place.Dial), time.Minute)
	defer c.Close()
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
	if n := dialed.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	// Commands have HTTP/1.1 on the same socket.
	if text, err := get(t, NewClient(place, time.Minute), "/"); err != nil || text != "debug endpoint is alive" {
		t.Errorf("a command: %s %v", text, err)
	}
	c.Close()
	if _, err := get(t, c, "/"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The uid of the client is that of the connection, and its actions are recorded and refused as those of commands.
func TestTunnelActs(t *testing.T) {
	o := operate(theOperator())
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	serve(t, ServerOptions{API: o.api(), Place: place, Log: slog.New(slog.DiscardHandler)})
	tunnel, command := NewTunnel(place.Dial, time.Minute), NewClient(place, time.Minute)
	defer tunnel.Close()
	var answers [2]string
	for i, c := range []*Client{command, tunnel} { // this process has started the server: both are taken for a hook, or both are not
		body, err := c.Post(t.Context(), "/queue/slow/retry.json", map[string][]string{"dryRun": {"true"}})
		if err != nil {
			answers[i] = err.Error()
			continue
		}
		text, _ := io.ReadAll(body)
		body.Close()
		answers[i] = string(text)
	}
	if answers[0] != answers[1] || answers[0] == "" {
		t.Errorf("a command gets %q, the tunnel %q", answers[0], answers[1])
	}
}

// A connection over TCP stays HTTP/1.1.
func TestNoTunnelOverTCP(t *testing.T) {
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	s, _ := serve(t, ServerOptions{API: operate(theOperator()).api(), Place: place, TCP: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	address := s.served[1].listener.Addr().String()
	c := NewTunnel(func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", address) }, time.Minute)
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

// A tunnel that hangs is noticed by pings, its stream ends with an error, and the next request gets a new connection.
func TestTunnelHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		ended := servePipes(ctx, operate(theOperator()).api(), p)
		var conns []*stuck
		c := NewTunnel(func(ctx context.Context) (net.Conn, error) {
			conn, err := p.dial(ctx)
			if err != nil {
				return nil, err
			}
			conns = append(conns, newStuck(conn))
			return conns[len(conns)-1], nil
		}, time.Minute)
		body, err := c.Get(ctx, "/tail.json")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // pings are answered
		began := time.Now()
		close(conns[0].hangs)
		if n, err := body.Read(make([]byte, 1)); err == nil {
			t.Errorf("the stream delivers %d bytes", n)
		}
		if took := time.Since(began); took > pingAfter+pingTimeout+time.Second {
			t.Errorf("it was noticed after %s", took)
		}
		body.Close()
		if text, err := get(t, c, "/"); err != nil || text != "debug endpoint is alive" || len(conns) != 2 {
			t.Errorf("afterwards: %q %v, %d connections", text, err, len(conns))
		}
		c.Close()
		cancel()
		ended()
	})
}

// While no connection can be made, requests fail with the reason, and attempts follow with a growing delay.
func TestTunnelBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		attempts, fails := 0, true
		c := NewTunnel(func(ctx context.Context) (net.Conn, error) {
			attempts++
			if fails {
				return nil, &Problem{text: fmt.Sprintf("no Pod, attempt %d", attempts), hint: "set -n"}
			}
			return p.dial(ctx)
		}, time.Minute)
		for range 600 {
			if _, err := get(t, c, "/"); err == nil || err.Error() != fmt.Sprintf("no Pod, attempt %d", attempts) {
				t.Fatalf("%v after %d attempts", err, attempts)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if attempts < 9 || attempts > 12 { // 0.25 + 0.5 + 1 + 2 + 4 + 8, then every 10 s
			t.Errorf("%d attempts in a minute", attempts)
		}
		fails = false
		ctx, cancel := context.WithCancel(t.Context())
		ended := servePipes(ctx, operate(theOperator()).api(), p)
		time.Sleep(redialMax)
		if _, err := get(t, c, "/"); err != nil {
			t.Error(err)
		}
		// The operator restarts: the next request is served by the next one, without a delay.
		before := attempts
		cancel()
		ended()
		p = newPipes()
		ctx, cancel = context.WithCancel(t.Context())
		ended = servePipes(ctx, operate(theOperator()).api(), p)
		if _, err := get(t, c, "/"); err != nil || attempts != before+1 {
			t.Errorf("after a restart: %v, %d attempts more", err, attempts-before)
		}
		c.Close()
		cancel()
		ended()
	})
}

// An operator that speaks HTTP/1.1 only is an error.
func TestTunnelToAnOldOperator(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: operate(theOperator()).api(), ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	c := NewTunnel(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}, time.Minute)
	if text, err := get(t, c, "/"); err == nil {
		t.Errorf("it answers %q", text)
	}
	c.Close()
	s.Close()
	serving.Wait()
}
