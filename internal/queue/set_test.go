package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPanicIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		set := NewSet(Options{
			Backoff: func(int) time.Duration { return time.Second },
			OnPanic: func(queue string, task Task, reason any, stack []byte) {
				reported = append(reported, fmt.Sprintf("panic in %s: %v", queue, reason))
				if !strings.Contains(string(stack), "TestPanicIsReported") {
					t.Errorf("the stack does not show the task:\n%s", stack)
				}
			},
			OnFailure: func(f Failed) {
				reported = append(reported, fmt.Sprintf("failure %d in %s: %v", f.Failures, f.Queue, f.Err))
			},
		})
		stop, cancel := context.WithCancel(t.Context())
		panicked := false
		set.Add("main", "", funcTaskOf(func(context.Context) error {
			if !panicked {
				panicked = true
				var list []int
				list[3] = 0
			}
			reported = append(reported, "done")
			return nil
		}))
		set.Add("main", "", funcTaskOf(func(context.Context) error {
			reported = append(reported, "next")
			cancel()
			return nil
		}))
		_ = set.Run(stop, t.Context())
		const reason = "runtime error: index out of range [3] with length 0"
		want := "panic in main: " + reason + "\nfailure 1 in main: panic: " + reason + "\ndone\nnext"
		if got := strings.Join(reported, "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// Both callbacks are optional.
func TestPanicWithoutHandler(t *testing.T) {
	set := NewSet(Options{Backoff: func(int) time.Duration { return 0 }})
	stop, cancel := context.WithCancel(t.Context())
	tries := 0
	set.Add("main", "", funcTaskOf(func(context.Context) error {
		if tries++; tries < 3 {
			panic(tries)
		}
		cancel()
		return nil
	}))
	_ = set.Run(stop, t.Context())
	if tries != 3 || set.Len("main") != 0 {
		t.Errorf("%d tries, %d tasks left", tries, set.Len("main"))
	}
}

func TestStopLetsTheRunningTaskFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := NewSet(Options{Backoff: DefaultBackoff(time.Second, time.Second)})
		stop, cancel := context.WithCancel(t.Context())
		finished := false
		set.Add("main", "", funcTaskOf(func(ctx context.Context) error {
			cancel()
			select {
			case <-time.After(time.Hour):
				finished = true
			case <-ctx.Done():
				t.Error("the stop ended the context of the running task")
			}
			return nil
		}))
		set.Add("main", "", funcTaskOf(func(context.Context) error {
			t.Error("a task ran after the stop")
			return nil
		}))
		if err := set.Run(stop, t.Context()); err != nil || !finished {
			t.Errorf("Run returned %v, finished %t", err, finished)
		}
		set.Add("late", "", funcTaskOf(func(context.Context) error {
			t.Error("a task of a new queue ran after the stop")
			return nil
		}))
		synctest.Wait()
		if main, late := set.Len("main"), set.Len("late"); main != 1 || late != 1 {
			t.Errorf("%d and %d tasks are left", main, late)
		}
	})
}

func TestEndOfRunsEndsTheRunningTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := NewSet(Options{Backoff: DefaultBackoff(time.Second, time.Second)})
		stop, cancel := context.WithCancel(t.Context())
		runs, kill := context.WithCancel(t.Context())
		set.Add("main", "", funcTaskOf(func(ctx context.Context) error {
			cancel()
			time.AfterFunc(3*time.Second, kill)
			<-ctx.Done()
			return ctx.Err()
		}))
		began := time.Now()
		_ = set.Run(stop, runs)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("Run returned after %s", took)
		}
	})
}

func TestLookShowsMainFirst(t *testing.T) {
	set := NewSet(Options{})
	set.Keep(map[string]Shape{"b": {}, "main": {}, "z": {}, "a": {}})
	var names []string
	for _, q := range dump(set) {
		names = append(names, q.Name)
	}
	if got := strings.Join(names, " "); got != "main a b z" {
		t.Errorf("got %s", got)
	}
}

// Sources add from many goroutines: each one's tasks run in its order, and none is lost.
func TestAddFromManyGoroutines(t *testing.T) {
	const sources, each = 8, 200
	set := NewSet(Options{Backoff: func(int) time.Duration { return 0 }})
	stop, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- set.Run(stop, t.Context()) }()

	var all, sent sync.WaitGroup
	all.Add(sources * each)
	var last [sources]int // only the worker of "main" uses it
	for source := range sources {
		sent.Go(func() {
			for i := 1; i <= each; i++ {
				set.Add("main", "", funcTaskOf(func(context.Context) error {
					defer all.Done()
					if last[source] != i-1 {
						t.Errorf("source %d: task %d ran after %d", source, i, last[source])
					}
					last[source] = i
					return nil
				}))
				dump(set)
			}
		})
	}
	sent.Wait()
	all.Wait()
	cancel()
	<-ended
	if n := set.Len("main"); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
}
