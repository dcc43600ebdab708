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

// keeper renews the certificates in a store and serves them.
type keeper struct {
	Source
	store store
	// names must all be in the serving certificate; without any there is none.
	names []string
	log   *slog.Logger
	wake  chan struct{}

	// The constructor owns these fields, and then Run.

	// state is the current one.
	state state
	// trouble suppresses repeated records.
	trouble trouble
}

const (
	// lookEvery is short beside the life of a certificate: timers stop while a machine is suspended.
	lookEvery = time.Hour
	// manyConflicts in a row are more than concurrent replicas cause.
	manyConflicts = 20
)

// newKeeper returns a keeper that is complete.
func newKeeper(ctx context.Context, s store, names []string, log *slog.Logger) (*keeper, error) {
	k := &keeper{store: s, names: names, log: log, wake: make(chan struct{}, 1)}
	k.changed, k.rotate = make(chan struct{}), k.run
	err := k.look(ctx)
	if s := k.state; err == nil || s.usable() && (s.serving == nil || validAt(s.serving.cert, time.Now())) {
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
		err := k.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		k.trouble.log(k.log, "Webhook certificates cannot be kept fresh, the last ones stay in use", "Webhook certificates are kept fresh again",
			err)
		wait := lookEvery
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

// look adopts the stored state and renews it where that is due.
func (k *keeper) look(ctx context.Context) error {
	for range manyConflicts {
		old, err := k.store.read(ctx)
		found, rewrite, err := k.repair(old.state, err)
		if err != nil {
			return err
		}
		planned, why, err := plan(time.Now(), found, k.names)
		if err != nil {
			return err
		}
		if len(why) > 0 || rewrite != "" {
			if err := k.store.write(ctx, old, planned); errors.Is(err, errConflict) {
				continue
			} else if err != nil {
				k.take(found) // the state of other replicas is valid nevertheless
				return err
			}
			k.report(planned, why, rewrite)
		}
		k.take(planned)
		return nil
	}
	return errConflict
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

// take makes a state current if it is complete.
func (k *keeper) take(s state) {
	if s.usable() && (s.serving != nil || len(k.names) == 0) {
		k.state = s
		k.show(s.certificate(), s.bundle(), s.secrets)
	}
}

func (k *keeper) report(s state, why []string, rewrite string) {
	if rewrite != "" && !(rewrite == missing && !k.state.usable()) {
		k.log.Warn("Webhook certificates are written again", "reason", rewrite)
	}
	for _, reason := range why {
		fields := []any{"reason", reason}
		if s.serving != nil {
			fields = append(fields, "certificateExpires", s.serving.cert.NotAfter)
		}
		k.log.Info("Webhook certificates changed", fields...)
	}
}
