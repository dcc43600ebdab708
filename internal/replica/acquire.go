package replica

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// acquire waits until this replica holds the Lease, and returns it with the time from which it counts. It returns false
// when ctx has ended before.
func (l *Lease) acquire(ctx context.Context) (held *coordinationv1.Lease, renewed time.Time, ok bool) {
	for ctx.Err() == nil {
		started := time.Now()
		held, pause, err := l.try(ctx)
		if ctx.Err() == nil || held != nil {
			l.complain(err)
		}
		if held != nil {
			l.lead()
			return held, started, true
		}
		l.pause(ctx, pause)
	}
	return nil, time.Time{}, false
}

// try takes the Lease if it is free. Otherwise it returns how long to wait.
func (l *Lease) try(ctx context.Context) (held *coordinationv1.Lease, pause time.Duration, err error) {
	if wait, watching := l.wait(); wait > 0 && watching {
		return nil, wait, nil
	}
	live, err := l.store.get(ctx)
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return nil, l.opts.RetryPeriod, err
	}
	l.observe(live)
	if wait, watching := l.wait(); wait > 0 {
		if !watching {
			wait = min(wait, l.opts.RetryPeriod)
		}
		return nil, wait, nil
	}
	// Once it is asked for, the answer has to be known: what we have taken we must give back.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(l.opts.RenewDeadline, releaseTime))
	defer cancel()
	if live == nil {
		held, err = l.store.create(ctx, claim(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.opts.Namespace, Name: l.opts.Name},
		}, l.opts.Identity, l.opts.Duration, time.Now()))
	} else {
		held, err = l.store.update(ctx, claim(live, l.opts.Identity, l.opts.Duration, time.Now()))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil, l.opts.RetryPeriod, nil // another one was quicker
	}
	if err != nil {
		return nil, l.opts.RetryPeriod, err
	}
	return held, 0, nil
}

// wait is how long the Lease is not free, as far as we know, and whether we hear of changes.
func (l *Lease) wait() (wait time.Duration, watching bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return remaining(l.seen, l.since, time.Now(), l.opts.Identity, l.opts.Duration), l.watching
}

// observe remembers a state of the Lease; nil means that there is none.
func (l *Lease) observe(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.seen != nil && lease != nil && l.seen.ResourceVersion == lease.ResourceVersion
	if !known {
		l.seen, l.since = lease, time.Now()
	}
	l.tell(holder(lease))
}

// lead remembers that the Lease is ours.
func (l *Lease) lead() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(l.opts.Identity)
	l.leading = true
}

// tell tells who holds the Lease, with the lock held.
func (l *Lease) tell(holder string) {
	if l.leading || l.told != nil && *l.told == holder {
		return
	}
	l.told = &holder
	if l.opts.Changed != nil {
		l.opts.Changed(holder)
	}
}
