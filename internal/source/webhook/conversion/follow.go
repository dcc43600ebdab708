package conversion

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

const (
	// pollEvery is how often a CRD is read that may not be watched, or could not be read.
	pollEvery = 15 * time.Second
	// retryAfter is the delay after a failed write. The rate limit makes writes as rare as writeEvery soon, also in a
	// dispute with another writer.
	retryAfter = time.Second
	writeEvery = 30 * time.Second
	writeBurst = 5
	// attemptTimeout bounds one attempt.
	attemptTimeout = 30 * time.Second
)

// follower keeps one CRD registered.
type follower struct {
	*Registrar
	name   string
	log    *slog.Logger
	writes *rate.Limiter
	// wake has a token when the CRD or the registration may have changed.
	wake chan struct{}
	// logged suppresses repeated records about the watch.
	logged logonce.Dedup

	// Only run uses these: the last registration that the CRD had, and whether its absence has been logged.
	applied []byte
	waiting bool
}

func newFollower(r *Registrar, name string) *follower {
	return &follower{
		Registrar: r, name: name, log: r.opts.Log.With("crd", name),
		writes: rate.NewLimiter(rate.Every(writeEvery), writeBurst), wake: make(chan struct{}, 1),
	}
}

func (f *follower) run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	defer f.report(nil)
	watching.Go(func() {
		one := kube.One{Client: f.opts.Client, Path: []string{crdPath}, Name: f.name}
		one.Follow(ctx, kube.Backoff{Max: pollEvery, Forbidden: pollEvery}, f.wake, f.watched)
	})
	for kube.Wait(ctx, f.reconcile(ctx), f.wake) {
	}
}

// watched logs why the CRD cannot be watched; nil means that it is.
func (f *follower) watched(err error) {
	switch {
	case err == nil:
		f.logged.End("watch")
	case apierrors.IsForbidden(err):
		f.missing(err)
	case !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
		if _, due := f.logged.Due("watch", err.Error()); due {
			f.log.Warn("Cannot watch the CRD of a conversion hook, will try again", "error", err.Error())
		}
	}
}

// report reports whether hooks convert the objects of the CRD.
func (f *follower) report(err error) {
	var hooks []string
	for _, h := range f.opts.Hooks {
		if slices.ContainsFunc(h.Conversions, func(c hook.Conversion) bool { return c.CRDName == f.name }) {
			hooks = append(hooks, h.Name)
		}
	}
	f.opts.Report(hooks, f.name, err)
}

// reconcile makes the CRD as registered. It returns when to try again, 0 for the next signal.
func (f *follower) reconcile(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	found, err := f.look(ctx, f.name)
	switch {
	case err == nil && (f.led() != nil || waiting(stepsByCRD(f.opts.Hooks)[f.name], f.opts.Ready) != nil):
		return 0
	case err != nil:
		f.failed(ctx, "Cannot read the CRD of a conversion hook, will try again", err)
		return pollEvery
	case found == nil:
		f.absent()
		return 0
	}
	f.waiting = false
	patch, err := registration(&f.opts, f.name)
	if err == nil {
		var differs bool
		if differs, err = changes(found, patch); err == nil && !differs {
			f.registered(patch, false)
			return 0
		}
	}
	turn := f.writes.Reserve()
	if delay := turn.Delay(); delay > 0 {
		turn.Cancel()
		return delay
	}
	if err == nil {
		err = f.write(ctx, patch)
	}
	if apierrors.IsNotFound(err) {
		f.absent()
		return 0
	}
	if err != nil {
		f.failed(ctx, "Cannot point the CRD at the conversion hooks, will try again", err)
		return retryAfter
	}
	f.registered(patch, true)
	return 0
}

// absent waits for a CRD that does not exist.
func (f *follower) absent() {
	if !f.waiting {
		f.log.Info("Waiting for the CRD of a conversion hook")
	}
	f.report(errors.New("it does not exist: its objects are converted as soon as it does"))
	f.waiting, f.applied = true, nil
}
