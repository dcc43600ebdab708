package httpserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// Intake bounds the bytes of the bodies that are read, or held for runs, at the same time. It is safe for concurrent use.
//
// Requests get bytes in their order. A body above the limit counts as half of it, and there is one at a time: smaller ones are read beside
// it, however long its run takes.
type Intake struct {
	limit int64
	// large has the token of the one body above the limit.
	large chan struct{}

	mu sync.Mutex // guards what follows
	// free are the bytes that no request holds; waiting are those that wait for bytes, in their order.
	free    int64
	waiting []*claim
}

// claim is a request that waits for bytes; granted is closed when it has them.
type claim struct {
	bytes   int64
	granted chan struct{}
}

// NewIntake returns an Intake for bodies of limit bytes; 0 means 64 MiB.
func NewIntake(limit int64) *Intake {
	if limit <= 0 {
		limit = 64 << 20
	}
	return &Intake{limit: limit, free: limit, large: make(chan struct{}, 1)}
}

// claim waits until n bytes are free.
func (in *Intake) claim(ctx context.Context, n int64) error {
	c := &claim{n, make(chan struct{})}
	in.mu.Lock()
	in.waiting = append(in.waiting, c)
	in.mu.Unlock()
	in.release(0)
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
	}
	in.mu.Lock()
	i := slices.Index(in.waiting, c)
	if i >= 0 {
		in.waiting = slices.Delete(in.waiting, i, i+1)
	}
	in.mu.Unlock()
	if i < 0 { // granted meanwhile
		return nil
	}
	in.release(0) // it was before others
	return context.Cause(ctx)
}

// release frees bytes, and grants those that fit, in their order.
func (in *Intake) release(n int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.free += n
	for len(in.waiting) > 0 && in.waiting[0].bytes <= in.free {
		in.free -= in.waiting[0].bytes
		close(in.waiting[0].granted)
		in.waiting = in.waiting[1:]
	}
}

// Limiter bounds the requests of one hook: those in flight, and the backlog behind them.
type Limiter struct {
	in *Intake
	// entered and running have a token for each request, and for each run.
	entered, running chan struct{}
}

// Limiter returns a Limiter for inFlight runs and backlog further requests.
func (in *Intake) Limiter(inFlight, backlog int) *Limiter {
	return &Limiter{in: in, entered: make(chan struct{}, inFlight+backlog), running: make(chan struct{}, inFlight)}
}

// Request is one request that has entered a Limiter.
type Request struct {
	of *Limiter
	// bytes are those that it holds. For a large one they are half of the limit, or less.
	bytes int64
	large bool
	// uses counts who needs the body.
	uses atomic.Int32
}

// Enter admits a request, which must Leave, or returns nil; it never blocks.
func (l *Limiter) Enter() *Request {
	select {
	case l.entered <- struct{}{}:
	default:
		return nil
	}
	r := &Request{of: l}
	r.uses.Store(1)
	return r
}

// Reserve waits until n bytes are free for the body. It is called once.
func (r *Request) Reserve(ctx context.Context, n int64) error {
	in := r.of.in
	if n > in.limit {
		select {
		case in.large <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		r.large, n = true, (in.limit+1)/2
	}
	if err := in.claim(ctx, n); err != nil {
		r.shrink(0)
		return err
	}
	r.bytes = n
	return nil
}

// Complete is called when the body has been read, with its size.
func (r *Request) Complete(size int64) {
	if size < r.bytes {
		r.shrink(size)
	}
}

// shrink keeps so many bytes.
func (r *Request) shrink(bytes int64) {
	if r.large {
		r.large = false
		<-r.of.in.large
	}
	r.of.in.release(r.bytes - bytes)
	r.bytes = bytes
}

// Keep makes the body count until done is called, also if the request leaves before.
func (r *Request) Keep() (done func()) {
	r.uses.Add(1)
	return r.done
}

// Leave releases the slot, and the bytes if nothing else keeps them.
func (r *Request) Leave() {
	<-r.of.entered
	r.done()
}

func (r *Request) done() {
	if r.uses.Add(-1) == 0 {
		r.shrink(0)
	}
}

// Start blocks until the run of the request may start. Each started run must Finish.
func (r *Request) Start(ctx context.Context) error {
	select {
	case r.of.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Finish releases the slot of a run, including one that is being ended after its client has disconnected.
func (r *Request) Finish() { <-r.of.running }

// Size is how many bytes the body of a request can have, if it is read up to a limit.
func Size(r *http.Request, limit int64) int64 {
	if r.ContentLength >= 0 {
		return min(r.ContentLength, limit)
	}
	return limit
}

// ReadBody reads a body of at most limit bytes into memory.
func (r *Request) ReadBody(ctx context.Context, w http.ResponseWriter, req *http.Request, limit int64) ([]byte, error) {
	if req.ContentLength > limit {
		w.Header().Set("Connection", "close") // it cannot be reused after an unread body
		return nil, &http.MaxBytesError{Limit: limit}
	}
	size := Size(req, limit)
	if err := r.Reserve(ctx, size); err != nil {
		return nil, err
	}
	body := http.MaxBytesReader(w, req.Body, size)
	var text []byte
	for {
		if len(text) == cap(text) { // never above size, which may be more than the client sends
			text = append(make([]byte, 0, min(size+1, max(4<<10, 2*int64(len(text))))), text...)
		}
		n, err := body.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case errors.Is(err, io.EOF):
			r.Complete(int64(len(text)))
			return text, nil
		case err != nil:
			return nil, err
		}
	}
}
