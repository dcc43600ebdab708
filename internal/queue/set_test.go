package queue

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

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
