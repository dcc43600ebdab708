package queue

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRemovedTasksAreReleased removes tasks of a lane as from a slice, and checks that their entries are released.
func TestRemovedTasksAreReleased(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l lane
		var want []time.Duration // entries have a distinct time each
		for i := range rapid.IntRange(1, 500).Draw(t, "steps") {
			if more := rapid.SampledFrom([]int{1, 1, 64, 0}).Draw(t, "more"); more > 0 || len(want) == 0 {
				for range more {
					l.tasks, want = append(l.tasks, entry{&funcTask{}, time.Duration(i)}), append(want, time.Duration(i))
				}
				continue
			}
			at := rapid.IntRange(0, len(want)-1).Draw(t, "at")
			for range min(len(want)-at, rapid.SampledFrom([]int{1, 128}).Draw(t, "removed")) {
				l.remove(at)
				want = slices.Delete(want, at, at+1)
			}
			held := 0
			for _, e := range l.tasks[:cap(l.tasks)] {
				if e.Task != nil {
					held++
				}
			}
			if !slices.EqualFunc(l.tasks, want, func(e entry, since time.Duration) bool { return e.since == since }) || held != len(want) {
				t.Fatalf("got %v, which holds %d tasks\nwant %v", l.tasks, held, want)
			}
		}
	})
}
