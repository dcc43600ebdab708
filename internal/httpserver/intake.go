package httpserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// Intake bounds the bytes of the bodies that are read, or held for runs, at the same time. It is safe for concurrent use.
//
// Requests get bytes in their order. A body above the limit counts as half of it, and there is one at a time: smaller ones are read beside
// it, however long its run takes.
type Intake struct {
	limit int64
	// free has the bytes that no request holds.
	free *semaphore.Weighted
	// large has the token of the one body above the limit.
	large chan struct{}
}

// NewIntake returns an Intake for bodies of limit bytes; 0 means 64 MiB.
func NewIntake(limit int64) *Intake {
	if limit <= 0 {
		limit = 64 << 20
	}
	return &Intake{limit: limit, free: semaphore.NewWeighted(limit), large: make(chan struct{}, 1)}
}

// Limits bound the requests of a handler: for each hook those in flight, and the backlog behind them. They are safe for concurrent use.
type Limits struct {
	in                *Intake
	inFlight, backlog int
	// runs are all that have not ended.
	runs sync.WaitGroup

	mu sync.Mutex // guards what follows
	by map[any]*limiter
}

// Limits returns Limits for inFlight runs and backlog further requests of each hook.
func (in *Intake) Limits(inFlight, backlog int) *Limits {
	return &Limits{in: in, inFlight: inFlight, backlog: backlog, by: map[any]*limiter{}}
}

// Wait returns when all runs have ended. Call it after the server's shutdown: a run may end later than its request.
func (l *Limits) Wait() { l.runs.Wait() }

// of returns the limiter of a hook, or of whatever a handler limits.
func (l *Limits) of(key any) *limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[key] == nil {
		l.by[key] = &limiter{in: l.in, entered: make(chan struct{}, l.inFlight+l.backlog), running: make(chan struct{}, l.inFlight)}
	}
	return l.by[key]
}

// limiter bounds the requests of one hook.
type limiter struct {
	in *Intake
	// entered and running have a token for each request, and for each run.
	entered, running chan struct{}
	// refused suppresses records of further refused requests.
	refused logonce.Dedup
}

// request is one request that has entered a limiter.
type request struct {
	of *limiter
	// bytes are those that it holds. For a large one they are half of the limit, or less.
	bytes int64
	large bool
	// uses counts who needs the body: the request, and its run, which may end later.
	uses atomic.Int32
}

// enter admits a request, which must leave, or returns nil; it never blocks.
func (l *limiter) enter() *request {
	select {
	case l.entered <- struct{}{}:
	default:
		return nil
	}
	r := &request{of: l}
	r.uses.Store(1)
	return r
}

// reserve waits until n bytes are free for the body. It is called once.
func (r *request) reserve(ctx context.Context, n int64) error {
	in := r.of.in
	if n > in.limit {
		select {
		case in.large <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		r.large, n = true, (in.limit+1)/2
	}
	if err := in.free.Acquire(ctx, n); err != nil {
		r.shrink(0)
		return err
	}
	r.bytes = n
	return nil
}

// complete is called when the body has been read, with its size.
func (r *request) complete(size int64) {
	if size < r.bytes {
		r.shrink(size)
	}
}

// shrink keeps so many bytes.
func (r *request) shrink(bytes int64) {
	if r.large {
		r.large = false
		<-r.of.in.large
	}
	r.of.in.free.Release(r.bytes - bytes)
	r.bytes = bytes
}

// leave releases the slot, and the bytes if no run needs them.
func (r *request) leave() {
	<-r.of.entered
	r.done()
}

func (r *request) done() {
	if r.uses.Add(-1) == 0 {
		r.shrink(0)
	}
}

// Body is a client's body, at most as many bytes as are reserved for it.
type Body struct {
	io.Reader
	// announced is the length that the client has sent, or -1.
	announced, limit, read int64
}

func (b *Body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	return n, err
}

// size bounds the bytes of the body.
func (b *Body) size() int64 {
	if b.announced >= 0 {
		return min(b.announced, b.limit)
	}
	return b.limit
}

// Bytes reads the body into memory. One that is announced as too large is not read.
func (b *Body) Bytes() ([]byte, error) {
	if b.announced > b.limit {
		return nil, &http.MaxBytesError{Limit: b.limit}
	}
	var text []byte
	for {
		if len(text) == cap(text) { // never above size, which may be more than the client sends
			text = append(make([]byte, 0, min(b.size()+1, max(4<<10, 2*int64(len(text))))), text...)
		}
		n, err := b.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case errors.Is(err, io.EOF):
			return text, nil
		case err != nil:
			return nil, err
		}
	}
}
