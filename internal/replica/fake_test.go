package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// server is an API server with one Lease.
type server struct {
	mu       sync.Mutex
	version  int
	lease    *coordinationv1.Lease
	watchers map[chan struct{}]bool
}

// set changes the Lease. The lock is held.
func (s *server) set(lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	if lease != nil {
		lease = lease.DeepCopy()
		lease.ResourceVersion = fmt.Sprint(s.version)
	}
	s.lease = lease
	for w := range s.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	return lease
}

// line is the way of one replica to the server. Its requests take some time, and fail when it is cut.
type line struct {
	*server
	delay time.Duration
	// broken is closed when the line is cut.
	broken chan struct{}
	// slowRead is added to the time of the first read.
	slowRead time.Duration
	// blind refuses watches.
	blind bool
}

var _ store = (*line)(nil)

var errCut = errors.New("the line is cut")

func newLine(s *server) *line {
	return &line{server: s, delay: 5 * time.Millisecond, broken: make(chan struct{})}
}

// travel is the way there, or back. A request on a line that is cut hangs until its context ends, as in life.
func (l *line) travel(ctx context.Context) error {
	select {
	case <-l.broken:
		<-ctx.Done()
		return errCut
	default:
	}
	select {
	case <-time.After(l.delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *line) do(ctx context.Context, work func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	if err := l.travel(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	lease, err := work()
	l.mu.Unlock()
	if cut := l.travel(ctx); cut != nil {
		return nil, cut
	}
	return lease, err
}

func (l *line) get(ctx context.Context) (*coordinationv1.Lease, error) {
	time.Sleep(l.slowRead)
	l.slowRead = 0
	return l.do(ctx, func() (*coordinationv1.Lease, error) {
		if l.lease == nil {
			return nil, apierrors.NewNotFound(leases, "lease")
		}
		return l.lease.DeepCopy(), nil
	})
}

func (l *line) create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.do(ctx, func() (*coordinationv1.Lease, error) {
		if l.lease != nil {
			return nil, apierrors.NewAlreadyExists(leases, "lease")
		}
		return l.set(lease), nil
	})
}

func (l *line) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.do(ctx, func() (*coordinationv1.Lease, error) {
		if l.lease == nil {
			return nil, apierrors.NewNotFound(leases, "lease")
		}
		if l.lease.ResourceVersion != lease.ResourceVersion {
			return nil, apierrors.NewConflict(leases, "lease", errors.New("it has changed"))
		}
		return l.set(lease), nil
	})
}

func (l *line) watch(ctx context.Context, opened func(), changed func(*coordinationv1.Lease)) error {
	if l.blind {
		return apierrors.NewForbidden(leases, "lease", errors.New("no"))
	}
	if err := l.travel(ctx); err != nil {
		return err
	}
	opened()
	news := make(chan struct{}, 1)
	l.mu.Lock()
	if l.watchers == nil {
		l.watchers = map[chan struct{}]bool{}
	}
	l.watchers[news] = true
	now := l.lease
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, news)
	}()
	if now != nil {
		changed(now)
	}
	for {
		select {
		case <-news:
		case <-l.broken:
			<-ctx.Done() // as if the other end had vanished
			return errCut
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := l.travel(ctx); err != nil {
			return err
		}
		l.mu.Lock()
		now := l.lease
		l.mu.Unlock()
		changed(now)
	}
}
