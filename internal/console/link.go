package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
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
	// Close ends the connection, if there is one between requests.
	Close()
}

// refused reports whether an error of an Operator is its answer: then the connection works.
func refused(err error) bool {
	var answer interface{ Answered() bool }
	return errors.As(err, &answer) && answer.Answered()
}

// noRoute reports whether it is that of an operator without the path.
func noRoute(err error) bool {
	var answer interface{ NoRoute() bool }
	return errors.As(err, &answer) && answer.NoRoute()
}

// Connection is a way to an operator.
type Connection struct {
	Operator
	// Pod is that of the operator; empty for one on this machine.
	Pod string
	// Flags are those that name the operator among several, for commands on pages; empty if it is the only one, or if Options have them.
	Flags string
}

// Bounds of the link to the operator.
const (
	firstDelay = 500 * time.Millisecond
	maxDelay   = 10 * time.Second
	// answerLimit is the time limit of an answer unless Options have another one, answerBytes bounds it.
	answerLimit = 10 * time.Second
	answerBytes = 64 << 20
	// probeLimit is that of the question whether an operator that is late with an answer gives others.
	probeLimit = 2 * time.Second
)

// link is the connection to the operator. The requests of pages restore it: without a page, nothing connects.
type link struct {
	// ctx is that of connections, which live longer than requests.
	ctx     context.Context
	connect func(context.Context) (*Connection, error)
	now     func() time.Time
	// limit is the time limit of an answer.
	limit time.Duration

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

// fault is an error with the next step, which may be empty.
type fault struct {
	text, hint string
	cause      error
}

func (f *fault) Error() string { return f.text }
func (f *fault) Hint() string  { return f.hint }
func (f *fault) Unwrap() error { return f.cause }

// slow is the error of a path that is not answered in time by an operator that answers others.
type slow struct{ fault }

func newLink(ctx context.Context, o *Options) *link {
	return &link{ctx: ctx, connect: o.Connect, now: o.now, limit: cmp.Or(o.Timeout, answerLimit), connecting: make(chan struct{}, 1)}
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
		return nil, l.waited(ctx.Err())
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

// waited is the error of a request whose time is over before another one has connected.
func (l *link) waited(err error) error {
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
	ctx, cancel := context.WithTimeout(l.ctx, l.limit)
	defer cancel()
	err := read(&status)(conn.Get(ctx, "/status.json"))
	if err != nil && (refused(err) || late(err) && l.answers(conn)) {
		return "unknown", nil
	}
	return status.Version, err
}

// late reports that a time limit was exceeded.
func late(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// answers reports whether the operator answers the request that costs nothing.
func (l *link) answers(conn *Connection) bool {
	ctx, cancel := context.WithTimeout(l.ctx, probeLimit)
	defer cancel()
	body, err := conn.Get(ctx, "/")
	if err != nil {
		return refused(err)
	}
	defer body.Close()
	_, err = io.ReadAll(io.LimitReader(body, 1<<10))
	return err == nil
}

// lose ends a connection, and returns the error of requests until the next one.
func (l *link) lose(conn *Connection, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn != nil {
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
	if l.conn != nil {
		l.conn.Close()
	}
	l.conn = nil
}

// problemOf is the error of a request over a connection, nil for none.
func (l *link) problemOf(conn *Connection, path string, err error) error {
	route, _, _ := strings.Cut(path, "?")
	route = strings.TrimSuffix(route, ".json")
	switch {
	case err == nil, errors.Is(err, errAnswer):
		return err
	case refused(err) && noRoute(err): // it is older
		version, _ := l.peer()
		return &fault{text: fmt.Sprintf("the operator is of version %s, which has no %s: the console of that version shows what it has",
			version, route), cause: err}
	case refused(err):
		return err
	case errors.Is(err, context.Canceled):
		return err // the browser has left
	case late(err) && l.answers(conn):
		return &slow{fault{fmt.Sprintf("the operator needs more than %s for %s, and answers other requests", l.limit, route),
			"it reads much, or its API server is slow: check its log, or start the console with a longer --timeout", err}}
	case errors.Is(err, context.DeadlineExceeded):
		return l.lose(conn, &fault{fmt.Sprintf("it has not answered within %s", l.limit),
			"it is stopped or busy: check its CPU time and its log", err})
	case errors.Is(err, errCut):
		return &lost{l.now(), err}
	}
	return l.lose(conn, err)
}

// get reads JSON.
func (l *link) get(ctx context.Context, path string, into any) error {
	return l.ask(ctx, path, into, func(ctx context.Context, c *Connection) (io.ReadCloser, error) { return c.Get(ctx, path) })
}

// post sends a form and reads JSON.
func (l *link) post(ctx context.Context, path string, form url.Values, into any) error {
	return l.ask(ctx, path, into, func(ctx context.Context, c *Connection) (io.ReadCloser, error) { return c.Post(ctx, path, form) })
}

func (l *link) ask(ctx context.Context, path string, into any, send func(context.Context, *Connection) (io.ReadCloser, error)) error {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	conn, err := l.current(ctx)
	if err != nil {
		return err
	}
	return l.problemOf(conn, path, read(into)(send(ctx, conn)))
}

// stream returns an answer without end.
func (l *link) stream(ctx context.Context, path string) (io.ReadCloser, error) {
	conn, err := l.current(ctx)
	if err != nil {
		return nil, err
	}
	body, err := conn.Get(ctx, path)
	return body, l.problemOf(conn, path, err)
}

// Errors of an answer: of one that is none, and of one that ends early, as that of an operator that ends.
var (
	errAnswer = errors.New("cannot read the answer of the operator")
	errCut    = errors.New("its answer has no end")
)

// read decodes an answer in JSON.
func read(into any) func(io.ReadCloser, error) error {
	return func(body io.ReadCloser, err error) error {
		if err != nil {
			return err
		}
		defer body.Close()
		limited := &io.LimitedReader{R: body, N: answerBytes}
		err = json.NewDecoder(limited).Decode(into)
		switch {
		case err == nil:
			return nil
		case limited.N <= 0:
			return fmt.Errorf("%w: it has more than %d MiB", errAnswer, answerBytes>>20)
		case errors.As(err, new(*json.SyntaxError)), errors.As(err, new(*json.UnmarshalTypeError)):
			return fmt.Errorf("%w: %w", errAnswer, err)
		}
		return fmt.Errorf("%w: %w", errCut, err)
	}
}
