package queue

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// blockedError is a run that has not begun.
type blockedError struct {
	until <-chan struct{}
	most  time.Duration
}

func (blockedError) Error() string                             { return "not begun" }
func (b blockedError) Until() (<-chan struct{}, time.Duration) { return b.until, b.most }

// waiter is a task that is blocked until its signal, or for a minute, and counts the tokens that it takes and gives back.
type waiter struct {
	plain
	began           time.Time
	signal          chan struct{}
	taken, returned int
	mu              sync.Mutex
	runs            []time.Duration
}

func newWaiter() *waiter { return &waiter{began: time.Now(), signal: make(chan struct{})} }

func (w *waiter) Owner() string { return "limited" }

func (w *waiter) Ready() (time.Duration, func()) {
	w.taken++
	return 0, func() { w.returned++ }
}

func (w *waiter) Run(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, time.Since(w.began))
	select {
	case <-w.signal:
		return nil
	default:
	}
	if len(w.runs) > 1 { // the longest time was over
		return nil
	}
	return blockedError{w.signal, time.Minute}
}

func (w *waiter) expect(t *testing.T, runs ...time.Duration) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.runs, runs) {
		t.Errorf("runs at %v, want %v", w.runs, runs)
	}
}

// A blocked run is no failure: it is not reported, counts no attempt, holds no slot, and keeps its token. Its signal wakes it, and no other.
func TestBlocked(t *testing.T) {
	blockedRun(t, func(t *testing.T, set *Set) {
		a, b := newWaiter(), newWaiter()
		set.Add("a", "", a)
		set.Add("b", "", b)
		other := false
		set.Add("c", "", funcTaskOf(func(context.Context) error { other = true; return nil }))
		time.Sleep(30 * time.Second)
		for _, name := range []string{"a", "b"} {
			set.Look(name, "", -1, func(s State, lanes []Lane) {
				if s.Phase != Waiting || lanes[0].Phase != Waiting || s.Running != 0 {
					t.Errorf("queue %s: %+v", s.Name, s.Lane)
				}
			})
		}
		if !other || set.Delayed() != 0 {
			t.Errorf("the other queue has run: %t, %d delayed", other, set.Delayed())
		}
		if n := set.Retry(func(string, string, Task) bool { return true }); n != 0 {
			t.Errorf("%d waits ended", n)
		}
		close(a.signal)
		synctest.Wait()
		a.expect(t, 0, 30*time.Second)
		b.expect(t, 0)
		time.Sleep(time.Minute)
		b.expect(t, 0, time.Minute)
		if n := set.Len("a") + set.Len("b"); n != 0 {
			t.Errorf("%d tasks are left", n)
		}
		for _, w := range []*waiter{a, b} {
			if w.taken != 1 || w.returned != 0 {
				t.Errorf("%d tokens taken, %d returned, want one that was used", w.taken, w.returned)
			}
		}
	})
}

// The signal may come between the decision and its return.
func TestSignalWhileBlocking(t *testing.T) {
	blockedRun(t, func(t *testing.T, set *Set) {
		signal := make(chan struct{})
		close(signal)
		var runs []time.Duration
		began := time.Now()
		set.Add("a", "", funcTaskOf(func(context.Context) error {
			if runs = append(runs, time.Since(began)); len(runs) == 1 {
				return blockedError{signal, time.Minute}
			}
			return nil
		}))
		synctest.Wait()
		if want := []time.Duration{0, 0}; !slices.Equal(runs, want) {
			t.Errorf("runs at %v, want %v", runs, want)
		}
	})
}

// What ends a lane's wait gives the token back, and the signal that comes later wakes nothing.
func TestBlockedTaskLeaves(t *testing.T) {
	blockedRun(t, func(t *testing.T, set *Set) {
		w := newWaiter()
		set.Add("a", "", w)
		synctest.Wait()
		set.Edit(func(Task) bool { return false })
		close(w.signal)
		time.Sleep(time.Hour)
		w.expect(t, 0)
		if w.taken != 1 || w.returned != 1 || set.Len("a") != 0 {
			t.Errorf("%d tokens taken, %d returned, %d tasks left", w.taken, w.returned, set.Len("a"))
		}
	})
}

// blockedRun calls do while a Set with one slot runs, in a bubble.
func blockedRun(t *testing.T, do func(t *testing.T, set *Set)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		set := NewSet(Options{
			MaxRuns: 1, Backoff: func(int) time.Duration { return time.Second },
			OnFailure: func(f Failed) { t.Errorf("failure %d: %v", f.Failures, f.Err) },
		})
		stop, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { _ = set.Run(stop, t.Context()); close(ended) }()
		do(t, set)
		cancel()
		<-ended
	})
}
