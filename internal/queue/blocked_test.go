package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// blockedError is a run that has not begun.
type blockedError struct{ error }

func (blockedError) BlockedFor() time.Duration { return time.Minute }

// A blocked run is no failure: it is not reported, counts no attempt, holds no slot, and begins again when Retry ends its wait.
func TestBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := NewSet(Options{
			MaxRuns: 1, Backoff: func(int) time.Duration { return time.Second },
			OnFailure: func(f Failed) { t.Errorf("failure %d: %v", f.Failures, f.Err) },
		})
		stop, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var mu sync.Mutex // guards what follows
		open, other := false, false
		var runs []time.Duration
		set.Add("a", "", funcTaskOf(func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if runs = append(runs, time.Since(began)); !open {
				return blockedError{errors.New("no token")}
			}
			return nil
		}))
		set.Add("b", "", funcTaskOf(func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			other = true
			return nil
		}))
		ended := make(chan struct{})
		go func() { _ = set.Run(stop, t.Context()); close(ended) }()
		time.Sleep(90 * time.Second)
		mu.Lock()
		if !other || set.Delayed() != 0 {
			t.Errorf("the other queue has run: %t, %d delayed", other, set.Delayed())
		}
		open = true
		mu.Unlock()
		if n := set.Retry(func(string, string, Task) bool { return true }); n != 1 {
			t.Errorf("%d waits ended", n)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := []time.Duration{0, time.Minute, 90 * time.Second}; !slices.Equal(runs, want) || set.Len("a") != 0 {
			t.Errorf("runs at %v, want %v", runs, want)
		}
		cancel()
		<-ended
	})
}

// The reason why a run is blocked can end between the decision and its return: then Retry finds no delay to end yet.
func TestRetryWhileBlocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := NewSet(Options{Backoff: func(int) time.Duration { return time.Second }})
		stop, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var runs []time.Duration
		set.Add("a", "", funcTaskOf(func(context.Context) error {
			if runs = append(runs, time.Since(began)); len(runs) == 1 {
				if n := set.Retry(func(string, string, Task) bool { return true }); n != 0 {
					t.Errorf("%d waits ended", n)
				}
				return blockedError{errors.New("no token")}
			}
			return nil
		}))
		ended := make(chan struct{})
		go func() { _ = set.Run(stop, t.Context()); close(ended) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if want := []time.Duration{0, 0}; !slices.Equal(runs, want) {
			t.Errorf("runs at %v, want %v", runs, want)
		}
		cancel()
		<-ended
	})
}
