package admission

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Delays after failed attempts. The first registration fails for good when all of the first ones are over; later
// attempts go on with the last of the later ones.
var (
	firstDelays = []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second}
	laterDelays = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second, time.Minute}
)

// recheck is how often one looks at an object that may not be watched, and how long one that somebody else wants
// different is left alone.
const recheck = 5 * time.Minute

// keeper keeps one object as it should be. Its fields belong to the goroutine of run, but for those of the watch.
type keeper struct {
	opts     *RegistrarOptions
	kind     kind
	name     string
	webhooks []*webhook
	// started is when this operator started, for others to see who is newer.
	started time.Time
	log     *slog.Logger

	// ready is closed when the object is as it should be for the first time, or there is nothing that one may do.
	ready chan struct{}
	// wake has an element when the object may have changed.
	wake chan struct{}
	// writes paces restoring: somebody else may want the object to be different, and do the same.
	writes *rate.Limiter
	// yieldedAt is when the object was first left to a newer operator; zero when it is not.
	yieldedAt time.Time
	// recheck and delays are constants but for tests.
	recheck      time.Duration
	first, later []time.Duration
}

func newKeeper(o *RegistrarOptions, k kind, all []*webhook, started time.Time) *keeper {
	keeper := &keeper{
		opts: o, kind: k, name: o.ConfigurationName + "-hooks", started: started,
		ready: make(chan struct{}), wake: make(chan struct{}, 1),
		writes: rate.NewLimiter(rate.Every(30*time.Second), 10), recheck: recheck, first: firstDelays, later: laterDelays,
	}
	keeper.log = o.Log.With("kind", k.name, "name", keeper.name)
	for _, w := range all {
		if w.typ == k.typ {
			keeper.webhooks = append(keeper.webhooks, w)
		}
	}
	return keeper
}

// run keeps the object until ctx ends. It fails when the object cannot be made what it should be the first time.
func (k *keeper) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()

	done, failures := false, 0
	for {
		changed := k.bundleChanged()
		again, err := k.reconcile(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if failures = 0; !done {
				done = true
				close(k.ready)
				watching.Go(func() { k.watch(ctx) })
			}
		case len(k.webhooks) == 0 && apierrors.IsForbidden(err):
			k.log.Debug("No permission to remove a configuration without bindings, if there is one", "error", err.Error())
			if !done {
				close(k.ready)
			}
			return nil
		case !done && (refused(err) || failures >= len(k.first)):
			return k.explain(err)
		default:
			delays := k.later
			if !done {
				delays = k.first
			}
			again = delays[min(failures, len(delays)-1)]
			failures++
			k.log.Warn("Cannot register webhooks. Will retry after delay.", "error", k.explain(err).Error(), "delay", again.String(), "failedCount", failures)
		}
		if !k.wait(ctx, changed, again) {
			return nil
		}
	}
}

// wait returns when there is something to do, or false when ctx has ended. again is the time after which there is; 0
// means none.
func (k *keeper) wait(ctx context.Context, changed <-chan struct{}, again time.Duration) bool {
	var late <-chan time.Time
	if again > 0 {
		timer := time.NewTimer(again)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-changed:
	case <-k.wake:
	case <-late:
	case <-ctx.Done():
		return false
	}
	return true
}

// poke says that the object may have changed.
func (k *keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *keeper) bundleChanged() <-chan struct{} {
	if k.opts.BundleChanged == nil || k.opts.CertManager != "" {
		return nil
	}
	return k.opts.BundleChanged()
}

// bundle returns the CAs that belong into the object. With cert-manager they are those that are there.
func (k *keeper) bundle(live *configuration) []byte {
	switch {
	case k.opts.CertManager != "" && live != nil:
		for _, w := range live.Webhooks {
			if len(w.ClientConfig.CABundle) > 0 {
				return w.ClientConfig.CABundle
			}
		}
	case k.opts.CertManager == "" && k.opts.Bundle != nil:
		return k.opts.Bundle()
	}
	return nil
}

// conflicts is how often in a row others may change the object between looking at it and writing it.
const conflicts = 5

// reconcile makes the object what it should be. It returns the time after which to look again; 0 means none.
func (k *keeper) reconcile(ctx context.Context) (again time.Duration, err error) {
	for range conflicts {
		again, err = k.attempt(ctx)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			break
		}
	}
	return again, err
}

func (k *keeper) attempt(ctx context.Context) (again time.Duration, err error) {
	live, err := k.read(ctx)
	if err != nil {
		return 0, err
	}
	want := k.desired(live, k.bundle(live))
	left := k.recheck - time.Since(k.yieldedAt)
	patient := k.yieldedAt.IsZero() || left > 0
	do := k.decide(live, want, patient)
	switch do {
	case leave:
		k.yieldedAt = time.Time{}
		return 0, nil
	case yield:
		if k.yieldedAt.IsZero() {
			k.yieldedAt, left = time.Now(), k.recheck
			k.log.Info("An operator that started later has registered other webhooks, they stay for now: does another installation use the same configuration name?", "patience", left.String())
		}
		return left, nil
	}
	k.yieldedAt = time.Time{}
	if pace := k.pace(); pace > 0 {
		return pace, nil
	}
	return 0, k.write(ctx, do, live, want)
}

// pace is 0, or how long to wait before writing again.
func (k *keeper) pace() time.Duration {
	reservation := k.writes.Reserve()
	delay := reservation.Delay()
	if delay > 0 {
		reservation.Cancel()
		k.log.Warn("Somebody changes the webhook configuration again and again: does another installation use the same configuration name?", "delay", delay.String())
	}
	return delay
}

func (k *keeper) write(ctx context.Context, do action, live, want *configuration) error {
	switch do {
	case create:
		if err := k.create(ctx, k.written(want)); err != nil {
			return err
		}
		k.log.Info("Webhooks are registered", "count", len(want.Webhooks))
	case update:
		if !k.ours(live) {
			k.log.Warn("The webhook configuration leads somewhere else and is taken over: does another installation use the same configuration name?")
		}
		if err := k.update(ctx, k.written(want)); err != nil {
			return err
		}
		k.log.Info("Webhooks are registered anew, the configuration was not as it should be", "count", len(want.Webhooks))
	case remove:
		err := k.delete(ctx, live)
		if apierrors.IsForbidden(err) {
			k.log.Warn("The webhook configuration has no bindings any more, but may not be removed: with failure policy Fail it blocks requests", "error", k.explain(err).Error())
		}
		if err != nil {
			return err
		}
		k.log.Info("The webhook configuration is removed")
	}
	return nil
}

// remove removes the object if it is ours.
func (k *keeper) remove(ctx context.Context) error {
	k.webhooks = nil // from now on there should be none
	live, err := k.read(ctx)
	if apierrors.IsForbidden(err) || err == nil && (live == nil || k.decide(live, nil, true) != remove) {
		return nil
	}
	if err == nil {
		err = k.write(ctx, remove, live, nil)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %q stays behind: %w", k.kind.name, k.name, k.explain(err))
	}
	return nil
}
