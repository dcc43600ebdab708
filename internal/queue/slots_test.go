package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// All queues together have at most as many runs as there are slots, and no slot stays free that a queue may use.
func TestSlots(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slots := rapid.IntRange(0, 3).Draw(rt, "slots")
		synctest.Test(t, func(t *testing.T) { checkSlots(t, rt, slots, []string{"main", "a", "b", "c", "d"}) })
	})
}

func checkSlots(t *testing.T, rt *rapid.T, slots int, names []string) {
	set := NewSet(Options{Backoff: DefaultBackoff(time.Second, time.Second), MaxRuns: slots})
	stop, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = set.Run(stop, t.Context()) }()
	var mu sync.Mutex // guards running: retries begin while the test reads it
	running := map[string]chan error{}
	finish := func(name string, err error) {
		mu.Lock()
		done := running[name]
		delete(running, name)
		mu.Unlock()
		if done != nil {
			done <- err
		}
	}
	inFlight := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Collect(maps.Keys(running))
	}
	for range rapid.IntRange(1, 40).Draw(rt, "steps") {
		name := rapid.SampledFrom(names).Draw(rt, "queue")
		switch rapid.SampledFrom([]string{"add", "add", "add", "end", "end", "fail", "wait", "drop"}).Draw(rt, "step") {
		case "add":
			set.Add(name, "", funcTaskOf(func(context.Context) error {
				done := make(chan error)
				mu.Lock()
				running[name] = done
				mu.Unlock()
				return <-done
			}))
		case "end":
			finish(name, nil)
		case "fail":
			finish(name, fmt.Errorf("no luck"))
		case "wait":
			time.Sleep(time.Minute)
		case "drop": // what waits
			set.Edit(func(Task) bool { return false })
		}
		synctest.Wait()
		runs := inFlight()
		if slots > 0 && len(runs) > slots {
			rt.Fatalf("%d runs, and %d slots", len(runs), slots)
		}
		for _, name := range names {
			room := slots == 0 || len(runs) < slots
			set.Look(name, "", 0, func(q State, _ []Lane) {
				if q.Length > 0 && q.Phase == Idle && room {
					rt.Fatalf("%s does not run, and there is room", name)
				}
			})
		}
	}
	cancel()
	for left := inFlight(); len(left) > 0; left = inFlight() {
		for _, name := range left {
			finish(name, nil)
		}
		synctest.Wait()
	}
	<-ended
}
