package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// wrongCounters compares the counters and the order of the lanes with those that a walk over all lanes gives.
func wrongCounters(set *Set) string {
	for _, q := range set.all() {
		q.mu.Lock()
		c := &q.core
		lanes, failed, running := 0, 0, 0
		failing := map[string]int{}
		for l := range c.all() {
			lanes++
			if l.front > len(l.tasks) {
				q.mu.Unlock()
				return fmt.Sprintf("%d of %d tasks are at the front", l.front, len(l.tasks))
			}
			failed += len(l.failed)
			for _, f := range l.failed {
				failing[f.task.Owner()]++
			}
			if l.phase == Running {
				running++
			}
		}
		all := c.shown(lanes)
		half := c.shown(lanes / 2)
		distinct := map[*lane]bool{}
		for _, l := range all {
			distinct[l] = true
		}
		got, want := []int{c.size(), c.failed, len(c.running), len(all), len(distinct)},
			[]int{lanes, failed, running, lanes, lanes}
		counted := maps.Clone(c.failing)
		q.mu.Unlock()
		if !maps.Equal(failing, counted) {
			return fmt.Sprintf("queue %s: failing %v, want %v", q.name, counted, failing)
		}
		if !slices.Equal(got, want) {
			return fmt.Sprintf("queue %s: lanes, failed, running, shown, distinct: %v, want %v", q.name, got, want)
		}
		if !slices.Equal(half, all[:lanes/2]) {
			return fmt.Sprintf("queue %s: the first %d lanes are others than those of all", q.name, lanes/2)
		}
	}
	return ""
}

// An owner fails as long as one of its lanes does, whatever runs well beside it.
func TestFailingWhileAnotherLaneRunsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := NewSet(Options{Backoff: func(int) time.Duration { return time.Minute }})
		set.Keep(map[string]Shape{"q": {Keyed: true, Concurrency: 2}})
		stop, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- set.Run(stop, stop) }()
		attempts, seen := 0, map[string]bool{}
		set.Add("q", "a", &funcTask{owner: "h", run: func(context.Context) error {
			if attempts++; attempts == 1 {
				return errors.New("fails")
			}
			seen["its own last attempt"] = set.Failing("q", "h", "a")
			return nil
		}})
		synctest.Wait()
		set.Add("q", "b", &funcTask{owner: "h", run: func(context.Context) error {
			seen["another lane"] = set.Failing("q", "h", "b")
			return nil
		}})
		synctest.Wait()
		set.Add("q", "c", &funcTask{owner: "other", run: func(context.Context) error {
			seen["another owner"] = set.Failing("q", "other", "c")
			return nil
		}})
		time.Sleep(time.Hour)
		synctest.Wait()
		want := map[string]bool{"its own last attempt": false, "another lane": true, "another owner": false}
		if !maps.Equal(seen, want) || set.Failing("q", "h", "b") || set.Failing("none", "h", "b") {
			t.Errorf("failing: %v, want %v", seen, want)
		}
		cancel()
		<-ended
	})
}
