package httpserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Intake bounds the requests of all ports that run hooks: the bytes of their bodies together and, by a Limiter for each hook,
// their number. Clients decide how fast they send, so a request whose body is incomplete can be evicted for a newer one.
// It is safe for concurrent use.
//
// Callers come in the order of their constants: those first in the order get bytes and runs before others, whose
// incomplete requests are evicted for them, the oldest first.
//
// A body above the limit counts as half of it, and there is one at a time: smaller ones are read beside it, however long its run takes.
type Intake struct {
	limit int64

	mu sync.Mutex // guards what follows, and all Limiters and Requests
	// requests hold bytes or a slot, in the order in which they entered; waiting are those of them that wait for bytes.
	requests, waiting []*Request
	// held are the bytes of each Caller.
	held [callers]int64
	// large holds more bytes than the limit; nil if none does.
	large *Request
}

// Caller is what is known of the client of a request.
type Caller int

const (
	// KnownCaller is the API server.
	KnownCaller Caller = iota
	// HTTPClient calls HTTP hooks. All of them have a quarter of the bytes.
	HTTPClient
	// AnyCaller is any client of a port that cannot know its callers.
	AnyCaller
	// Stranger is not known where callers can be. All of them have a quarter of the bytes, and of the slots and runs of a Limiter.
	Stranger

	callers
)

// CallerOf returns KnownCaller for a known request, and Stranger for others.
func CallerOf(ctx context.Context) Caller {
	if Known(ctx) {
		return KnownCaller
	}
	return Stranger
}

// evictsPeers reports whether a caller evicts requests of its own kind at once, and not only slow ones.
func (c Caller) evictsPeers() bool { return c >= AnyCaller }

// bytes and slots are the shares of a Caller.
func (c Caller) bytes(of int64) int64 {
	if c == HTTPClient || c == Stranger {
		return (of + 3) / 4
	}
	return of
}

func (c Caller) slots(of int) int {
	if c == Stranger {
		return (of + 3) / 4
	}
	return of
}

// bodyGrace is how long a body may take while requests of the same kind wait.
const bodyGrace = 2 * time.Second

// Errors of Reserve.
var (
	ErrEvicted  = errors.New("the request was evicted for others, because its body was incomplete")
	ErrTooLarge = errors.New("the body is larger than all bodies of such clients together may be")
)

// NewIntake returns an Intake for bodies of limit bytes; 0 means 64 MiB.
func NewIntake(limit int64) *Intake {
	if limit <= 0 {
		limit = 64 << 20
	}
	return &Intake{limit: limit}
}

// Limiter bounds the requests of one hook: those in flight, and the backlog behind them.
type Limiter struct {
	in              *Intake
	inFlight, slots int

	// entered and running are counts; pending wait for a run.
	entered, running [callers]int
	pending          []*Request
}

// Limiter returns a Limiter for inFlight runs and backlog further requests.
func (in *Intake) Limiter(inFlight, backlog int) *Limiter {
	return &Limiter{in: in, inFlight: inFlight, slots: inFlight + backlog}
}

// Request is one request that has entered a Limiter.
type Request struct {
	of     *Limiter
	caller Caller
	abort  func()

	// want are the bytes that it asks for, and bytes those that it holds. For a large one both are half of the limit.
	want, bytes int64
	large       bool
	// reading is when the bytes were granted; complete ones have been read and are not evicted.
	reading                 time.Time
	complete, evicted, left bool
	// uses counts who needs the body.
	uses int
	// ready is closed with the bytes, or with the eviction; started when the run may start.
	ready, started chan struct{}
}

// Enter admits a request, which must Leave, or returns nil; it never blocks. An eviction calls abort, which must make a read
// of the body return.
func (l *Limiter) Enter(caller Caller, abort func()) *Request {
	l.in.mu.Lock()
	victim, ok := l.room(caller, time.Now())
	if !ok {
		l.in.mu.Unlock()
		return nil
	}
	if victim != nil {
		l.in.evict(victim)
	}
	r := &Request{of: l, caller: caller, abort: abort, uses: 1}
	l.entered[caller]++
	l.in.requests = append(l.in.requests, r)
	l.in.mu.Unlock()
	if victim != nil {
		victim.abort()
	}
	return r
}

// room reports whether one more request fits, and which must be evicted for it.
func (l *Limiter) room(caller Caller, now time.Time) (victim *Request, ok bool) {
	all := 0
	for _, n := range l.entered {
		all += n
	}
	own := l.entered[caller] >= caller.slots(l.slots) // then only one of the same kind makes room
	if !own && all < l.slots {
		return nil, true
	}
	for _, r := range l.in.evictable(caller, now) {
		if r.of == l && (!own || r.caller == caller) {
			return r, true
		}
	}
	return nil, false
}

// evictable are the incomplete requests that a caller evicts: those of callers behind it, and its own kind's if they are slow.
func (in *Intake) evictable(caller Caller, now time.Time) (all []*Request) {
	for _, r := range in.requests {
		slow := caller.evictsPeers() || !r.reading.IsZero() && now.Sub(r.reading) >= bodyGrace
		if !r.complete && !r.evicted && !r.left && (r.caller > caller || r.caller == caller && slow) {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b *Request) int { return int(b.caller - a.caller) })
	return all
}

// evict removes a request. Its bytes are free when it leaves.
func (in *Intake) evict(r *Request) {
	r.evicted = true
	r.of.entered[r.caller]--
	if i := slices.Index(in.waiting, r); i >= 0 {
		in.waiting = slices.Delete(in.waiting, i, i+1)
		close(r.ready)
	}
}

// Reserve waits until n bytes are free for the body. It is called once. A caller with a share cannot have more than that.
func (r *Request) Reserve(ctx context.Context, n int64) error {
	in := r.of.in
	if share := r.caller.bytes(in.limit); r.caller == Stranger && n > share {
		return ErrTooLarge
	}
	in.mu.Lock()
	if r.evicted {
		in.mu.Unlock()
		return ErrEvicted
	}
	r.want, r.ready = n, make(chan struct{})
	if r.large = n > in.limit && r.caller.bytes(in.limit) == in.limit; r.large {
		r.want = (in.limit + 1) / 2
	}
	in.waiting = append(in.waiting, r)
	slices.SortStableFunc(in.waiting, func(a, b *Request) int { return int(a.caller - b.caller) })
	in.grant()
	for {
		victims := in.relieve(r, time.Now())
		in.mu.Unlock()
		for _, v := range victims {
			v.abort()
		}
		slow := time.NewTimer(bodyGrace)
		select {
		case <-r.ready:
			slow.Stop()
			in.mu.Lock()
			defer in.mu.Unlock()
			if r.evicted {
				return ErrEvicted
			}
			return nil
		case <-ctx.Done():
			slow.Stop()
			in.mu.Lock()
			defer in.mu.Unlock()
			in.waiting = slices.DeleteFunc(in.waiting, func(o *Request) bool { return o == r })
			in.grant()
			return context.Cause(ctx)
		case <-slow.C:
			in.mu.Lock()
		}
	}
}

// grant gives bytes to waiting requests in their order. None overtakes one that waits for bytes of all callers; one that waits for a large
// one to end holds up no other.
func (in *Intake) grant() {
	full := [callers]bool{}
	for i := 0; i < len(in.waiting); {
		r := in.waiting[i]
		own, all := in.missing(r)
		switch {
		case r.large && in.large != nil:
			i++
			continue
		case full[r.caller] || all <= 0 && own > 0:
			full[r.caller] = true
			i++
			continue
		case all > 0:
			return
		}
		in.waiting = slices.Delete(in.waiting, i, i+1)
		r.bytes, r.reading = r.want, time.Now()
		in.held[r.caller] += r.bytes
		if r.large {
			in.large = r
		}
		close(r.ready)
	}
}

// missing returns how many bytes a request lacks of the share of its caller, and of the whole. A request that is alone among
// its kind can have more than the share; then only callers with the whole as their share exceed the limit.
func (in *Intake) missing(r *Request) (own, all int64) {
	want, share, total := r.want, r.caller.bytes(in.limit), int64(0)
	for _, n := range in.held {
		total += n
	}
	if in.held[r.caller] == 0 {
		if share == in.limit {
			return 0, 0
		}
		want = min(want, share)
	}
	return in.held[r.caller] + want - share, total + want - in.limit
}

// relieve evicts requests for one that waits, as far as that helps, and returns them.
func (in *Intake) relieve(r *Request, now time.Time) (victims []*Request) {
	if !slices.Contains(in.waiting, r) {
		return nil
	}
	own, all := in.missing(r)
	for _, v := range in.requests { // their bytes will be free
		if v.evicted && !v.left {
			all -= v.bytes
			if v.caller == r.caller {
				own -= v.bytes
			}
		}
	}
	evictable := in.evictable(r.caller, now)
	if r.large && in.large != nil && slices.Contains(evictable, in.large) {
		own, all = own-in.large.bytes, all-in.large.bytes
		victims = append(victims, in.large)
	}
	for _, v := range evictable {
		if own <= 0 && all <= 0 {
			break
		}
		if v == r || slices.Contains(victims, v) || v.bytes == 0 || own > 0 && all <= 0 && v.caller != r.caller {
			continue
		}
		all -= v.bytes
		if v.caller == r.caller {
			own -= v.bytes
		}
		victims = append(victims, v)
	}
	for _, v := range victims {
		in.evict(v)
	}
	return victims
}

// Complete is called when the body has been read, with its size: from now on the request is not evicted.
func (r *Request) Complete(size int64) error {
	in := r.of.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if r.evicted {
		return ErrEvicted
	}
	r.complete = true
	if size < r.bytes {
		in.held[r.caller] -= r.bytes - size
		r.bytes = size
		if in.large == r {
			in.large = nil
		}
		in.grant()
	}
	return nil
}

// Keep makes the body count until done is called, also if the request leaves before.
func (r *Request) Keep() (done func()) {
	r.of.in.mu.Lock()
	defer r.of.in.mu.Unlock()
	r.uses++
	return r.release
}

// Leave releases the slot, and the bytes if nothing else keeps them.
func (r *Request) Leave() {
	in := r.of.in
	in.mu.Lock()
	if !r.evicted {
		r.of.entered[r.caller]--
	}
	r.left = true
	in.mu.Unlock()
	r.release()
}

func (r *Request) release() {
	in := r.of.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if r.uses--; r.uses > 0 {
		return
	}
	in.held[r.caller] -= r.bytes
	r.bytes = 0
	if in.large == r {
		in.large = nil
	}
	in.requests = slices.DeleteFunc(in.requests, func(o *Request) bool { return o == r })
	in.grant()
}

// Start blocks until the run of the request may start. Each started run must Finish.
func (r *Request) Start(ctx context.Context) error {
	l := r.of
	l.in.mu.Lock()
	r.started = make(chan struct{})
	l.pending = append(l.pending, r)
	slices.SortStableFunc(l.pending, func(a, b *Request) int { return int(a.caller - b.caller) })
	l.dispatch()
	l.in.mu.Unlock()
	select {
	case <-r.started:
		return nil
	case <-ctx.Done():
	}
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	select {
	case <-r.started: // meanwhile
		return nil
	default:
	}
	l.pending = slices.DeleteFunc(l.pending, func(o *Request) bool { return o == r })
	return ctx.Err()
}

// Finish releases the slot of a run, including one that is being ended after its client has disconnected.
func (r *Request) Finish() {
	r.of.in.mu.Lock()
	defer r.of.in.mu.Unlock()
	r.of.running[r.caller]--
	r.of.dispatch()
}

// dispatch starts pending runs.
func (l *Limiter) dispatch() {
	l.pending = slices.DeleteFunc(l.pending, func(r *Request) bool {
		all := 0
		for _, n := range l.running {
			all += n
		}
		if all >= l.inFlight || l.running[r.caller] >= r.caller.slots(l.inFlight) {
			return false
		}
		l.running[r.caller]++
		close(r.started)
		return true
	})
}

// Size is how many bytes the body of a request can have, if it is read up to a limit.
func (r *Request) Size(req *http.Request, limit int64) int64 {
	if req.ContentLength >= 0 {
		return min(req.ContentLength, limit)
	}
	if share := r.caller.bytes(r.of.in.limit); share < r.of.in.limit {
		return min(limit, share)
	}
	return limit
}

// ReadBody reads a body of at most limit bytes into memory.
func (r *Request) ReadBody(ctx context.Context, w http.ResponseWriter, req *http.Request, limit int64) ([]byte, error) {
	if req.ContentLength > limit {
		w.Header().Set("Connection", "close") // it cannot be reused after an unread body
		return nil, &http.MaxBytesError{Limit: limit}
	}
	size := r.Size(req, limit)
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
			return text, r.Complete(int64(len(text)))
		case err != nil && r.Complete(0) != nil:
			return nil, ErrEvicted
		case err != nil:
			return nil, err
		}
	}
}

// AbortRead returns a function that ends a blocked read of the body: a deadline in the past.
func AbortRead(w http.ResponseWriter) func() {
	return func() { _ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) }
}
