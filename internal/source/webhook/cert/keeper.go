package cert

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// keeper keeps the certificates in a store fresh and shows them.
type keeper struct {
	shown
	store  store
	policy policy
	log    *slog.Logger
	now    func() time.Time
	wake   chan struct{}

	// What follows belongs to the constructor, and then to Run.

	// state is what is shown.
	state state
	// trouble suppresses repeated records.
	trouble trouble
}

var _ Source = (*keeper)(nil)

const (
	// longestSleep bounds one wait: timers stand still while a machine is suspended.
	longestSleep = time.Hour
	// manyConflicts are more than replicas make by accident.
	manyConflicts = 20
)

// newKeeper returns a keeper that shows something.
func newKeeper(ctx context.Context, s store, p policy, log *slog.Logger, now func() time.Time) (*keeper, error) {
	k := &keeper{store: s, policy: p, log: log, now: now, wake: make(chan struct{}, 1)}
	k.changed = make(chan struct{})
	_, err := k.look(ctx)
	if err == nil || k.state.usable() && validAt(k.state.serving.cert, now()) {
		// One that cannot write does with what others wrote; Run will tell.
		return k, nil
	}
	return nil, err
}

// Run implements Source.
func (k *keeper) Run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { k.store.follow(ctx, k.wake) })
	defer following.Wait()
	var retry delay
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.wake:
		case <-timer.C:
		}
		again, err := k.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		k.trouble.log(k.log, "Webhook certificates cannot be kept fresh, the last ones stay in use", "Webhook certificates are kept fresh again", err)
		wait := min(again.Sub(k.now()), longestSleep)
		if err != nil {
			wait = retry.next()
		} else {
			retry = 0
		}
		timer.Reset(wait)
	}
}

// look takes over what others wrote and does what is to be done. It returns when it wants to be called again.
func (k *keeper) look(ctx context.Context) (again time.Time, err error) {
	for range manyConflicts {
		old, err := k.store.read(ctx)
		found, rewrite, err := k.repair(old.state, err)
		if err != nil {
			return time.Time{}, err
		}
		now := k.now()
		planned, done, err := plan(now, found, k.policy)
		if err != nil {
			return time.Time{}, err
		}
		if len(done) > 0 || rewrite != "" {
			if err := k.store.write(ctx, old, planned); errors.Is(err, errConflict) {
				continue
			} else if err != nil {
				k.take(found) // what others did is good nevertheless
				return time.Time{}, err
			}
			k.report(planned, done, rewrite)
		}
		k.take(planned)
		return next(now, planned, k.policy).again, nil
	}
	return time.Time{}, errConflict
}

const missing = "they were deleted"

// repair decides what to go on with after reading, and why that must be written even if there is nothing else to do.
// What is lost or damaged comes back from memory, so that callers notice nothing.
func (k *keeper) repair(read state, err error) (found state, rewrite string, _ error) {
	var damaged *damagedError
	switch {
	case err == nil:
		return read, "", nil
	case errors.As(err, &damaged):
		found, rewrite = read, "they are damaged: "+strings.ReplaceAll(err.Error(), "\n", "; ")
	case errors.Is(err, errAbsent):
		rewrite = missing
	default:
		return state{}, "", err
	}
	if k.state.usable() {
		found = k.state
	}
	return found, rewrite, nil
}

// plan does what is to be done with a state, and returns what that was.
func plan(now time.Time, s state, p policy) (state, []decision, error) {
	var done []decision
	for {
		d := next(now, s, p)
		if d.do == nothing {
			return s, done, nil
		}
		var err error
		if s, err = apply(now, s, d, p); err != nil {
			return state{}, nil, err
		}
		done = append(done, d)
	}
}

// take shows a state if it has something to show.
func (k *keeper) take(s state) {
	if s.usable() {
		k.state = s
		k.show(s.certificate(), s.bundle())
	}
}

func (k *keeper) report(s state, done []decision, rewrite string) {
	if rewrite != "" && !(rewrite == missing && !k.state.usable()) {
		k.log.Warn("Webhook certificates are written again", "reason", rewrite)
	}
	for _, d := range done {
		k.log.Info("Webhook certificates changed", "step", string(d.do), "reason", d.why,
			"certificateExpires", s.serving.cert.NotAfter, "authorities", len(s.authorities))
	}
}
