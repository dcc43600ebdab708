package queue

import (
	"context"
	"sync"
	"testing"
	"time"
)

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
	if tasks := dump(set)[0].Tasks; len(tasks) > 0 {
		t.Errorf("%d tasks are left", len(tasks))
	}
}
