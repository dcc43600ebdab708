package cert

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// keeper rotates the certificates in a store and serves them.
type keeper struct {
	Source
	store  store
	policy policy
	log    *slog.Logger
	wake   chan struct{}

	// The constructor owns these fields, and then Run.

	// state is the current one.
	state state
	// trouble suppresses repeated records.
	trouble trouble
}

const (
	// longestSleep bounds one wait: timers stop while a machine is suspended.
	longestSleep = time.Hour
	// manyConflicts in a row are more than concurrent replicas cause.
	manyConflicts = 20
)

// newKeeper returns a keeper with a certificate.
func newKeeper(ctx context.Context, s store, p policy, log *slog.Logger) (*keeper, error) {
	k := &keeper{store: s, policy: p, log: log, wake: make(chan struct{}, 1)}
	k.changed, k.rotate = make(chan struct{}), k.run
	_, err := k.look(ctx)
	if err == nil || k.state.usable() && validAt(k.state.serving.cert, time.Now()) {
		// Without permission to write, the state of other replicas is used; Run logs the error.
		return k, nil
	}
	return nil, err
}

// run is Source.Run.
func (k *keeper) run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { k.store.follow(ctx, k.wake) })
	defer following.Wait()
	var retry delay
	for {
		again, err := k.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		k.trouble.log(k.log, "Webhook certificates cannot be kept fresh, the last ones stay in use", "Webhook certificates are kept fresh again",
			err)
		wait := min(max(time.Until(again), 1), longestSleep)
		if err != nil {
			wait = retry.next()
		} else {
			retry = 0
		}
		if !kube.Wait(ctx, wait, k.wake) {
			return nil
		}
	}
}

// look adopts the stored state and rotates it where due. It returns the time of its next call.
func (k *keeper) look(ctx context.Context) (again time.Time, err error) {
	for range manyConflicts {
		old, err := k.store.read(ctx)
		found, rewrite, err := k.repair(old.state, err)
		if err != nil {
			return time.Time{}, err
		}
		now := time.Now()
		planned, done, err := plan(now, found, k.policy)
		if err != nil {
			return time.Time{}, err
		}
		if len(done) > 0 || rewrite != "" {
			if err := k.store.write(ctx, old, planned); errors.Is(err, errConflict) {
				continue
			} else if err != nil {
				k.take(found) // the state of other replicas is valid nevertheless
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

// repair returns the state to continue with after reading, and why it must be written even if nothing is due. Lost or
// damaged state is restored from memory, so that clients do not notice.
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

// plan applies all decisions that are due, and returns them.
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

// take makes a state current if it has a certificate.
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
