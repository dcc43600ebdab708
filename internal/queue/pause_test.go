package queue

import (
	"fmt"
	"sync"
	"testing"
)

// Pauses and their ends at the same time leave the Set and all its queues with one opinion.
func TestPausesAtTheSameTime(t *testing.T) {
	set := NewSet(Options{})
	for i := range 4 {
		set.Add(fmt.Sprint(i), "", &hookTask{hook: i})
	}
	for round := range 500 {
		var both sync.WaitGroup
		for _, do := range []func(string){set.Pause, set.Resume, set.Pause, set.Resume} {
			both.Go(func() { do("0") })
		}
		both.Wait()
		paused := len(set.PausedQueues()) > 0
		set.mu.Lock()
		if q := set.queues["0"]; q.core.paused != paused {
			t.Fatalf("round %d: the queue is paused %t, in itself %t", round, paused, q.core.paused)
		}
		set.mu.Unlock()
	}
}
