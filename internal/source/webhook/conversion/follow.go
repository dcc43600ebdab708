package conversion

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// lookAgain is how often a CRD that may not be watched is looked for.
	lookAgain = 15 * time.Second
	// tryAgain is the time between attempts at first. Like disputes with others who write the same, attempts soon
	// become as rare as writeEvery.
	tryAgain    = time.Second
	writeEvery  = 30 * time.Second
	writeAtOnce = 5
	// patience is the time limit of one attempt.
	patience = 30 * time.Second
)

// follower keeps one CRD registered.
type follower struct {
	*Registrar
	name   string
	log    *slog.Logger
	writes *rate.Limiter
	// signal says that there is something new. Capacity 1: one look serves all who signal.
	signal chan struct{}

	// Only run uses these: what the CRD was last made to be, and whether its absence has been logged.
	applied []byte
	waiting bool

	mu sync.Mutex // guards what follows
	// known tells that seen is what there is; a nil crd is not there.
	known bool
	seen  *crd
	// hidden tells that the CRD may not be listed.
	hidden bool
	// trouble is the last error of the watch, so that it is logged once.
	trouble string
}

func newFollower(r *Registrar, name string) *follower {
	return &follower{
		Registrar: r, name: name, log: r.opts.Log.With("crd", name),
		writes: rate.NewLimiter(rate.Every(writeEvery), writeAtOnce), signal: make(chan struct{}, 1),
	}
}

func (f *follower) wake() {
	select {
	case f.signal <- struct{}{}:
	default:
	}
}

func (f *follower) run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { watchCRD(ctx, f) })
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.signal:
		case <-again:
		}
		again = nil
		if delay := f.reconcile(ctx); delay > 0 {
			again = time.After(delay)
		}
	}
}

// found takes all there is: a CRD, or nil.
func (f *follower) found(c *crd) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.seen, f.hidden = true, c, false
	f.wake()
}

// changed takes a change of the CRD. What is older than our own writing is nothing new.
func (f *follower) changed(c *crd) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil || !c.olderThan(f.seen) {
		f.known, f.seen, f.hidden = true, c, false
		f.wake()
	}
}

// report takes an answer to a list or a watch.
func (f *follower) report(err error) {
	if apierrors.IsForbidden(err) {
		f.missing(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.trouble = ""
		return
	}
	if apierrors.IsForbidden(err) {
		if !f.known && !f.hidden { // one that may be listed and not watched is listed again and again
			f.hidden = true
			f.wake()
		}
		return
	}
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || f.trouble == err.Error() {
		return
	}
	f.trouble = err.Error()
	f.log.Warn("Cannot watch the CRD of a conversion hook, will try again", "error", err.Error())
}

// reconcile looks at the CRD and puts it right. It returns when to look again, 0 for when there is news.
func (f *follower) reconcile(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, known, err := f.look(ctx)
	switch {
	case err != nil:
		f.failed(ctx, "Cannot read the CRD of a conversion hook, will try again", err)
		return lookAgain
	case !known:
		return 0
	case found == nil:
		return f.absent()
	}
	f.waiting = false
	patch, err := registration(&f.opts, f.name)
	if err == nil {
		var differs bool
		if differs, err = changes(found.seen, patch); err == nil && !differs {
			f.unchanged(patch)
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
		return f.absent()
	}
	if err != nil {
		f.failed(ctx, "Cannot point the CRD at the conversion hooks, will try again", err)
		return tryAgain
	}
	f.wrote(patch)
	return 0
}

func (f *follower) look(ctx context.Context) (found *crd, known bool, err error) {
	f.mu.Lock()
	found, known = f.seen, f.known
	hidden := f.hidden
	f.mu.Unlock()
	if !hidden {
		return found, known, nil
	}
	raw, err := f.getCRD(ctx, f.name)
	if apierrors.IsNotFound(err) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	found, err = readCRD(raw)
	return found, true, err
}

// absent waits for a CRD that is not there.
func (f *follower) absent() time.Duration {
	if !f.waiting {
		f.log.Info("Waiting for the CRD of a conversion hook")
	}
	f.waiting, f.applied = true, nil
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hidden {
		return lookAgain
	}
	return 0
}
