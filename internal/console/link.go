package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Operator is what the console asks of a running operator: the debug API.
type Operator interface {
	// Get returns the body for a path, Post that for a form. The caller closes it.
	Get(ctx context.Context, path string) (io.ReadCloser, error)
	Post(ctx context.Context, path string, form url.Values) (io.ReadCloser, error)
}

// Connection is a way to an operator.
type Connection struct {
	Operator
	// Pod is that of the operator; empty for one on this machine.
	Pod string
	// Flags are those that name the operator among several, for commands on pages; empty if it is the only one, or if Options have them.
	Flags string
	// Close ends the connection; nil if it has nothing to end.
	Close func()
}

// Bounds of the link to the operator.
const (
	firstDelay = 500 * time.Millisecond
	maxDelay   = 10 * time.Second
	// answerLimit is the time limit of an answer, answerBytes bounds it.
	answerLimit = 10 * time.Second
	answerBytes = 64 << 20
)

// link is the connection to the operator. The requests of pages restore it: without a page, nothing connects.
type link struct {
	// ctx is that of connections, which live longer than requests.
	ctx     context.Context
	connect func(context.Context) (*Connection, error)
	// refused reports whether an error is an answer of the operator.
	refused func(error) bool
	// noRoute reports whether such an answer is that of an operator without the path.
	noRoute func(error) bool
	now     func() time.Time

	// connecting has room for the one request that connects.
	connecting chan struct{}

	mu sync.Mutex
	// conn is nil after a request has failed, until the next one may connect.
	conn *Connection
	// version, pod and flags are those of the last operator that answered.
	version, pod, flags string
	// since is when the connection was lost, problem why; delay is the time between two attempts.
	since, next time.Time
	delay       time.Duration
	problem     error
}

// lost is the error of a request without an operator.
type lost struct {
	since time.Time
	error
}

func (l *lost) Unwrap() error { return l.error }

// missing is the error of a route that the operator does not have, because it is older.
type missing struct{ Route, Version string }

func (m *missing) Error() string {
	return fmt.Sprintf("the operator is of version %s, which has no %s: the console of that version shows what it has", m.Version, m.Route)
}

func newLink(ctx context.Context, o *Options) *link {
	return &link{ctx: ctx, connect: o.Connect, refused: o.Refused, noRoute: o.NoRoute, now: o.now, connecting: make(chan struct{}, 1)}
}

// peer is the operator that answers, or did.
func (l *link) peer() (version, pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version, l.pod
}

// named are the flags that name the operator among several.
func (l *link) named() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flags
}

// current returns the connection, and makes one if there is none and the delay is over.
func (l *link) current(ctx context.Context) (*Connection, error) {
	select {
	case l.connecting <- struct{}{}:
	case <-ctx.Done():
		return nil, l.late(ctx.Err())
	}
	defer func() { <-l.connecting }()
	l.mu.Lock()
	conn, since, problem, early := l.conn, l.since, l.problem, l.now().Before(l.next)
	l.mu.Unlock()
	switch {
	case conn != nil:
		return conn, nil
	case early:
		return nil, &lost{since, problem}
	}
	conn, err := l.connect(l.ctx)
	version := ""
	if err == nil {
		version, err = l.versionOf(conn)
	}
	if err != nil {
		return nil, l.lose(conn, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flags = conn.Flags
	l.conn, l.version, l.pod, l.since, l.next, l.delay, l.problem = conn, version, conn.Pod, time.Time{}, time.Time{}, 0, nil
	return conn, nil
}

// late is the error of a request whose time is over before another one has connected.
func (l *link) late(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err // the browser has left
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := &lost{l.since, l.problem}
	if l.since.IsZero() {
		gone = &lost{l.now(), errors.New("the connection is still being made")}
	}
	return gone
}

// versionOf checks a connection: a replica that was restarted may be of another version. The connection is not that of the request, whose
// browser may leave.
func (l *link) versionOf(conn *Connection) (string, error) {
	var status struct{ Version string }
	ctx, cancel := context.WithTimeout(l.ctx, answerLimit)
	defer cancel()
	err := l.read(conn.Get(ctx, "/status.json"))(&status)
	if err != nil && l.refused(err) {
		return "unknown", nil // it answers
	}
	return status.Version, err
}

// lose ends a connection, and returns the error of requests until the next one.
func (l *link) lose(conn *Connection, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn != nil && conn.Close != nil {
		conn.Close()
	}
	if l.conn != nil && l.conn != conn {
		return &lost{l.now(), err} // another request has lost it, and one has connected since
	}
	if l.since.IsZero() {
		l.since = l.now()
	}
	l.delay = min(max(2*l.delay, firstDelay), maxDelay)
	l.conn, l.problem, l.next = nil, err, l.now().Add(l.delay)
	return &lost{l.since, err}
}

// close ends the connection with the console.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil && l.conn.Close != nil {
		l.conn.Close()
	}
	l.conn = nil
}

// call sends a request and classifies its error.
func (l *link) call(ctx context.Context, path string, send func(*Connection) (io.ReadCloser, error)) (io.ReadCloser, error) {
	conn, err := l.current(ctx)
	if err != nil {
		return nil, err
	}
	body, err := send(conn)
	switch {
	case err == nil:
		return body, nil
	case l.refused(err):
		if route, _, _ := strings.Cut(path, "?"); l.noRoute(err) {
			version, _ := l.peer()
			return nil, &missing{strings.TrimSuffix(route, ".json"), version}
		}
		return nil, err
	case errors.Is(err, context.Canceled):
		return nil, err // the browser has left
	}
	return nil, l.lose(conn, err)
}

// get reads JSON.
func (l *link) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	body, err := l.call(ctx, path, func(c *Connection) (io.ReadCloser, error) { return c.Get(ctx, path) })
	return l.read(body, err)(into)
}

// post sends a form and reads JSON.
func (l *link) post(ctx context.Context, path string, form url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	body, err := l.call(ctx, path, func(c *Connection) (io.ReadCloser, error) { return c.Post(ctx, path, form) })
	return l.read(body, err)(into)
}

// stream returns an answer without end.
func (l *link) stream(ctx context.Context, path string) (io.ReadCloser, error) {
	return l.call(ctx, path, func(c *Connection) (io.ReadCloser, error) { return c.Get(ctx, path) })
}

// read decodes an answer in JSON. One that ends early is that of an operator that has ended.
func (l *link) read(body io.ReadCloser, err error) func(into any) error {
	return func(into any) error {
		if err != nil {
			return err
		}
		defer body.Close()
		limited := &io.LimitedReader{R: body, N: answerBytes}
		err := json.NewDecoder(limited).Decode(into)
		switch {
		case err == nil:
			return nil
		case limited.N <= 0:
			return fmt.Errorf("the answer of the operator has more than %d MiB", answerBytes>>20)
		case errors.As(err, new(*json.SyntaxError)), errors.As(err, new(*json.UnmarshalTypeError)):
			return fmt.Errorf("cannot read the answer of the operator: %w", err)
		}
		return &lost{l.now(), fmt.Errorf("its answer has no end: %w", err)}
	}
}
