package replica

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// follow watches the Lease until ctx ends. What it delivers may be old, so it only triggers a read. Without the permission
// to watch, a standby reads the Lease every RetryPeriod.
func (l *Lease) follow(ctx context.Context) {
	const shortest, longest = 500 * time.Millisecond, time.Minute
	delay := shortest
	for {
		begun := time.Now()
		err := l.store.watch(ctx, func() { l.setWatching(true) }, l.changed)
		l.setWatching(false)
		switch {
		case ctx.Err() != nil:
			return
		case apierrors.IsForbidden(err):
			if _, due := l.logged.Due("watch", ""); due {
				l.log.Warn("No permission to watch the Lease: a hand-over takes longer", "error", l.explain(err).Error())
			}
			delay = longest
		case time.Since(begun) > longest:
			delay = shortest
		default:
			delay = min(2*delay, l.opts.RetryPeriod)
		}
		l.wake() // there may have been changes since the watch ended
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (l *Lease) setWatching(is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watching = is
}

// changed handles a change, unless it is our own.
func (l *Lease) changed(lease *coordinationv1.Lease) {
	if holder(lease) == l.identity {
		return
	}
	l.observe(lease)
	l.wake()
}

func (l *Lease) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}
