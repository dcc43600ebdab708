package admission

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// watchTime is how long one watch lasts, in the API's words.
	watchTime = "600"
	// watchPause is the least time between two watches.
	watchPause = time.Second
)

// watch wakes the keeper whenever the object changes. It reads nothing of the changes: the keeper looks for itself, so
// nothing depends on their order, and whatever happens between two watches is seen when the second one begins.
//
// Without the permission to watch, the keeper is woken every few minutes: what somebody breaks by hand is noticed late,
// but that is better than never, and costs nothing.
func (k *keeper) watch(ctx context.Context) {
	warned, pause := false, watchPause
	for {
		begun := time.Now()
		err := k.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case apierrors.IsForbidden(err):
			if !warned {
				warned = true
				k.log.Warn("No permission to watch: changes by others are noticed late", "error", k.explain(err).Error(), "recheck", k.recheck.String())
			}
			pause = k.recheck
		case time.Since(begun) > time.Minute:
			pause = watchPause
		default:
			pause = min(2*pause, time.Minute)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			k.poke()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// follow watches once: until the API server ends the watch.
func (k *keeper) follow(ctx context.Context) error {
	body, err := k.opts.Client.Get().AbsPath(k.path("")...).Param("watch", "true").Param("fieldSelector", "metadata.name="+k.name).
		Param("timeoutSeconds", watchTime).MaxRetries(0).Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	changes := json.NewDecoder(body)
	for {
		k.poke() // first of all for what happened before
		var change json.RawMessage
		if err := changes.Decode(&change); err != nil {
			return err
		}
	}
}
