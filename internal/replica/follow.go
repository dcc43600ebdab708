package replica

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// follow watches the Lease until ctx ends. Events may be late, so they only wake the replica. Without the permission to
// watch, a standby reads the Lease once per RetryPeriod.
func (l *Lease) follow(ctx context.Context) {
	kube.WatchOne(ctx, kube.Backoff{Min: 500 * time.Millisecond, Max: l.opts.RetryPeriod}, func(ctx context.Context) error {
		return l.store.watch(ctx, func() { l.setWatching(true) }, l.changed)
	}, func(err error) {
		l.setWatching(false)
		if apierrors.IsForbidden(err) {
			if _, due := l.logged.Due("watch", ""); due {
				l.log.Warn("No permission to watch the Lease: a hand-over takes longer", "error", l.explain(err).Error())
			}
		}
		l.wake() // there may have been changes since the watch ended
	})
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
