package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// server is an API server with Leases.
type server struct {
	mu       sync.Mutex
	version  int
	leases   map[string]*coordinationv1.Lease
	watchers map[chan struct{}]bool
}

func newServer() *server {
	return &server{leases: map[string]*coordinationv1.Lease{}, watchers: map[chan struct{}]bool{}}
}

// set changes a Lease. The lock is held.
func (s *server) set(name string, lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	if lease == nil {
		delete(s.leases, name)
	} else {
		lease = lease.DeepCopy()
		lease.ResourceVersion = fmt.Sprint(s.version)
		if s.leases[name] == nil {
			lease.UID = types.UID("uid-" + lease.ResourceVersion)
		}
		s.leases[name] = lease
	}
	for w := range s.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	return lease
}

// change changes a Lease as another client.
func (s *server) change(name string, to func(*coordinationv1.Lease) *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(name, to(s.leases[name].DeepCopy()))
}

// line is the way of one replica to the server. Its requests take some time, and fail when it is cut.
type line struct {
	*server
	delay time.Duration
	// broken is closed when the line is cut.
	broken chan struct{}
	// blind refuses watches, unlisted lists.
	blind, unlisted bool
	// creations counts the attempts to create a Lease.
	creations int
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

func (l *line) get(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	return l.do(ctx, func() (*coordinationv1.Lease, error) {
		if l.leases[name] == nil {
			return nil, apierrors.NewNotFound(leases, name)
		}
		return l.leases[name].DeepCopy(), nil
	})
}

func (l *line) list(ctx context.Context, selector string) (all []coordinationv1.Lease, err error) {
	l.mu.Lock()
	unlisted := l.unlisted
	l.mu.Unlock()
	if unlisted {
		return nil, apierrors.NewForbidden(leases, "", errors.New("no"))
	}
	_, err = l.do(ctx, func() (*coordinationv1.Lease, error) {
		for _, lease := range l.selected("", selector) {
			all = append(all, *lease)
		}
		return nil, nil
	})
	return all, err
}

// selected returns the Leases of a selector, or one. The lock is held.
func (s *server) selected(name, selector string) map[string]*coordinationv1.Lease {
	chosen := map[string]*coordinationv1.Lease{}
	key, value, _ := strings.Cut(selector, "=")
	for _, lease := range s.leases {
		if selector == "" && lease.Name == name || selector != "" && lease.Labels[key] == value {
			chosen[lease.Name] = lease.DeepCopy()
		}
	}
	return chosen
}

func (l *line) create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.do(ctx, func() (*coordinationv1.Lease, error) {
		l.creations++
		if l.leases[lease.Name] != nil {
			return nil, apierrors.NewAlreadyExists(leases, lease.Name)
		}
		return l.set(lease.Name, lease), nil
	})
}

func (l *line) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.do(ctx, func() (*coordinationv1.Lease, error) {
		live := l.leases[lease.Name]
		if live == nil {
			return nil, apierrors.NewNotFound(leases, lease.Name)
		}
		if live.ResourceVersion != lease.ResourceVersion {
			return nil, apierrors.NewConflict(leases, lease.Name, errors.New("it has changed"))
		}
		return l.set(lease.Name, lease), nil
	})
}

func (l *line) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	_, err := l.do(ctx, func() (*coordinationv1.Lease, error) {
		live := l.leases[lease.Name]
		if live == nil {
			return nil, apierrors.NewNotFound(leases, lease.Name)
		}
		if live.ResourceVersion != lease.ResourceVersion || live.UID != lease.UID {
			return nil, apierrors.NewConflict(leases, lease.Name, errors.New("it has changed"))
		}
		l.set(lease.Name, nil)
		return nil, nil
	})
	return err
}

func (l *line) watch(ctx context.Context, name, selector string, opened func(),
	changed func(string, *coordinationv1.Lease)) error {
	if l.blind {
		return apierrors.NewForbidden(leases, "lease", errors.New("no"))
	}
	if err := l.travel(ctx); err != nil {
		return err
	}
	opened()
	news := make(chan struct{}, 1)
	l.mu.Lock()
	l.watchers[news] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, news)
	}()
	known := map[string]*coordinationv1.Lease{}
	for {
		l.mu.Lock()
		now := l.selected(name, selector)
		l.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if was := known[name]; was == nil || was.ResourceVersion != now[name].ResourceVersion {
				changed(name, now[name])
			}
		}
		for name := range known {
			if now[name] == nil {
				changed(name, nil)
			}
		}
		known = now
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
	}
}
