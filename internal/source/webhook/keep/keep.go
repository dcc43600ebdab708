// Package keep keeps objects of the cluster as the operator wants them, whatever other clients write: webhook configurations, the
// conversion of CRDs, the Secret of certificates.
//
// Callers may rely on this:
//   - An object is reconciled at the start, and whenever it, or what is desired, may have changed; without the permission to watch once a
//     minute.
//   - What fails is logged, reported and retried with back-off, a conflict immediately. No failure ends Run.
package keep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/kube"
)

const (
	// RestoreEvery is the time between two writes that restore what another client has changed: two operators that differ do not write
	// forever.
	RestoreEvery = time.Minute
	// attemptTimeout bounds one attempt.
	attemptTimeout = 30 * time.Second
	// conflicts is how often in a row the object may change between reading and writing it.
	conflicts = 5
)

// retryDelays are those after failed attempts; the last one is repeated.
var retryDelays = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second, time.Minute}

// RetryDelay is the time before the next attempt after so many failed ones, at least one.
func RetryDelay(failed int) time.Duration { return retryDelays[min(failed, len(retryDelays))-1] }

// Object is an object of the cluster. All but Kind and Changes are required.
type Object struct {
	kube.One
	// Kind is the kind of the object, as Subject names it.
	Kind string
	// Reconcile reads the object, and writes it if it is not as desired. It returns nil, a *Pending, ErrDone, or why it has failed.
	Reconcile func(context.Context) error
	// Report receives what Reconcile has returned, and nil at the end of Run.
	Report func(error)
	// Explain adds to an error of the watch which permission is missing.
	Explain func(error) error
	// Changes return channels that are closed when what is desired may have changed; nil for never.
	Changes []func() <-chan struct{}
	// Again is when to reconcile it, if nothing changes before; 0 for never. Reconcile sets it.
	Again time.Duration
	// Failed is the message of the record of a failed attempt.
	Failed string
	Log    *slog.Logger
}

// Pending is why an object is not as desired yet, without a failure.
type Pending struct {
	Reason string
	// Again is when to reconcile it, if nothing changes before; 0 for never.
	Again time.Duration
}

func (p *Pending) Error() string { return p.Reason }

// ErrDone ends Run.
var ErrDone = errors.New("the object need not be kept any more")

// Subject names the object.
func (o *Object) Subject() string { return o.Kind + " " + o.Name }

// List returns the object, or nil if there is none. It lists, because that is what the RBAC of most installations allows; a list of one
// name needs no permission for others.
func (o *Object) List(ctx context.Context) ([]byte, error) {
	text, err := kube.Send(ctx, o.Client.Get().AbsPath(o.Path...).Param("fieldSelector", "metadata.name="+o.Name))
	if err != nil {
		return nil, err
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("cannot read a list of %s: %w", o.Kind, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return list.Items[0], nil
}

// Run keeps the object until ctx ends.
func (o *Object) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	wake := make(chan struct{}, 1)
	var running sync.WaitGroup
	defer o.Report(nil)
	defer running.Wait()
	defer cancel()
	for _, change := range o.Changes {
		next := change() // before Reconcile reads what it is about
		running.Go(func() {
			for kube.Wait(ctx, 0, next) {
				next = change()
				kube.Wake(wake)
			}
		})
	}
	// An object that cannot be read is not watched: one record about the permission is enough.
	watch := sync.OnceFunc(func() { running.Go(func() { o.watch(ctx, wake) }) })
	for failures := 0; ; {
		err := o.Attempt(ctx)
		if ctx.Err() != nil || errors.Is(err, ErrDone) {
			return
		}
		again, pending := o.Again, (*Pending)(nil)
		switch {
		case err == nil, errors.As(err, &pending):
			failures = 0
			if pending != nil {
				again = pending.Again
			}
			watch()
		default:
			failures++
			again = RetryDelay(failures)
			o.Log.Warn(o.Failed, "error", err.Error(), "delay", again.String(), "failedCount", failures)
		}
		o.Report(err)
		if !kube.Wait(ctx, again, wake) {
			return
		}
	}
}

// Attempt reconciles once, and again where the object has changed meanwhile.
func (o *Object) Attempt(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	for range conflicts {
		err = o.Reconcile(ctx)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			break
		}
	}
	return err
}

// watch wakes Run, which reads the object itself, whenever it may have changed, and after each watch: once a minute where it is forbidden.
func (o *Object) watch(ctx context.Context, wake chan<- struct{}) {
	reported := false
	kube.WatchOne(ctx, kube.Backoff{}, func(ctx context.Context) error {
		return o.Watch(ctx, func() { kube.Wake(wake) }, func(bool, []byte) { kube.Wake(wake) })
	}, func(err error) {
		if apierrors.IsForbidden(err) && !reported {
			o.Log.Warn("No permission to watch: changes by others are noticed within a minute", "error", o.Explain(err).Error())
			reported = true
		}
		kube.Wake(wake)
	})
}
