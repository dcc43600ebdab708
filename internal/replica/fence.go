package replica

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/replica/ownership"
)

type moment = ownership.Moment

// fence decides by clocks alone whether the Lease is certainly ours. The context of a leader ends when the loss is noticed;
// a process that was stopped would do much before that.
type fence struct {
	limit time.Duration
	now   func() moment

	mu sync.Mutex
	// held reports that the Lease was ours at renewed, the start of the last renewal that succeeded.
	held    bool
	renewed moment
}

func (f *fence) hold(renewed moment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held, f.renewed = true, renewed
}

func (f *fence) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = false
}

func (f *fence) check() error {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.held {
		return fmt.Errorf("not done: this replica does not lead any more")
	}
	if passed := now.Since(f.renewed); passed >= f.limit {
		return fmt.Errorf("not done: another replica may lead by now: the Lease was renewed %s ago and counts for %s; was this process or its "+
			"machine stopped?",
			passed.Round(time.Millisecond), f.limit)
	}
	return nil
}

type fenceKey struct{}

func fenceOf(ctx context.Context) *fence {
	f, _ := ctx.Value(fenceKey{}).(*fence)
	return f
}

// Fence returns a context for what only the leader may do: see Check and FencedTransport.
func (l *Lease) Fence(ctx context.Context) context.Context {
	return context.WithValue(ctx, fenceKey{}, &l.fence)
}

// Check returns an error if ctx belongs to a leader whose Lease may have expired. It reads the clocks, and sends no request.
func Check(ctx context.Context) error {
	if f := fenceOf(ctx); f != nil {
		return f.check()
	}
	return nil
}

// FencedTransport sends requests that change something and have the context of a leader only while the Lease is certainly
// ours. A process that is stopped between the check and the first byte is out of reach.
func FencedTransport(next http.RoundTripper) http.RoundTripper { return fencedTransport{next} }

type fencedTransport struct{ next http.RoundTripper }

func (t fencedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	f := fenceOf(req.Context())
	if f == nil || req.Method == http.MethodGet || req.Method == http.MethodHead {
		return t.next.RoundTrip(req)
	}
	if err := f.check(); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	// A new connection takes time, so the fence is checked again.
	ctx, cancel := context.WithCancelCause(req.Context())
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if err := f.check(); err != nil {
			cancel(err)
		}
	}})
	res, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		if late := context.Cause(ctx); late != nil && req.Context().Err() == nil {
			err = late
		}
		cancel(nil)
		return nil, err
	}
	res.Body = &lastingBody{res.Body, cancel}
	return res, nil
}

// WrappedRoundTripper returns the transport below.
func (t fencedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// lastingBody ends the context of its request when it is closed.
type lastingBody struct {
	io.ReadCloser
	end context.CancelCauseFunc
}

func (b *lastingBody) Close() error {
	defer b.end(nil)
	return b.ReadCloser.Close()
}
