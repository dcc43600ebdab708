package replica

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// acquire blocks until this replica holds the Lease, and returns it with the start of the request that acquired it. It
// returns false if ctx ends before.
func (l *Lease) acquire(ctx context.Context) (held *coordinationv1.Lease, renewed time.Time, ok bool) {
	for ctx.Err() == nil {
		held, renewed, pause, err := l.try(ctx)
		if ctx.Err() == nil || held != nil {
			l.complain(err)
		}
		if held != nil {
			l.lead()
			return held, renewed, true
		}
		l.pause(ctx, pause)
	}
	return nil, time.Time{}, false
}

// try acquires the Lease if it is free. Otherwise it returns the delay before the next attempt.
func (l *Lease) try(ctx context.Context) (held *coordinationv1.Lease, started time.Time, pause time.Duration, err error) {
	if wait, watching := l.wait(); wait > 0 && watching {
		return nil, started, wait, nil
	}
	live, err := l.store.get(ctx)
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return nil, started, l.opts.RetryPeriod, err
	}
	l.observe(live)
	if wait, watching := l.wait(); wait > 0 {
		if !watching {
			wait = min(wait, l.opts.RetryPeriod)
		}
		return nil, started, wait, nil
	}
	// The Lease counts from here on: the API server may have been slow before.
	now := l.fence.now()
	started = now.steady
	held, err = l.write(ctx, live, started)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return nil, started, l.opts.RetryPeriod, nil // another replica was faster
	case err != nil:
		return nil, started, l.opts.RetryPeriod, err
	}
	// A Lease that has run out while it was acquired is not ours to use: another replica may take it any moment.
	if took := l.fence.now().since(now); took >= l.opts.RenewDeadline {
		return nil, started, 0, fmt.Errorf("acquiring it took %s, which is longer than it counts for: was this process or its machine stopped?",
			took.Round(time.Millisecond))
	}
	return held, started, 0, nil
}

// write claims the Lease. The request does not end with ctx: a Lease that was acquired has to be released.
func (l *Lease) write(ctx context.Context, live *coordinationv1.Lease, now time.Time) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(l.opts.RenewDeadline, releaseTime))
	defer cancel()
	if live != nil {
		return l.store.update(ctx, l.claim(live, now))
	}
	return l.store.create(ctx,
		l.claim(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.opts.Namespace, Name: l.opts.Name}}, now))
}

// wait returns how long the Lease is not free, as far as is known, and whether changes of it are watched.
func (l *Lease) wait() (wait time.Duration, watching bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return remaining(l.seen, l.since, time.Now(), l.identity, l.opts.Duration), l.watching
}

// observe remembers a state of the Lease; nil means that there is none.
func (l *Lease) observe(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.seen != nil && lease != nil && l.seen.ResourceVersion == lease.ResourceVersion
	if !known {
		l.seen, l.since = lease, time.Now()
	}
	if !l.leading {
		l.report(Holder{Name: HolderName(lease), Self: holder(lease) == l.identity})
	}
}

// lead remembers that this replica holds the Lease.
func (l *Lease) lead() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading = true
	l.report(Holder{Name: l.opts.Pod, Self: true})
}

// report reports a new holder. mu is held.
func (l *Lease) report(h Holder) {
	if l.reported != nil && *l.reported == h {
		return
	}
	l.reported = &h
	if l.opts.Changed != nil {
		l.opts.Changed(h)
	}
}
