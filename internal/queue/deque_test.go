package queue

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDequeAgainstSlice applies the same operations to a deque and a slice, and checks that removed entries are
// released.
func TestDequeAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d deque
		var want []time.Duration // entries have a distinct time each
		for i := range rapid.IntRange(1, 500).Draw(t, "steps") {
			e := entry{&funcTask{}, time.Duration(i)}
			switch at := min(len(want), rapid.IntRange(0, 3).
				Draw(t, "at")); rapid.SampledFrom([]string{"push", "push", "push", "many", "insert", "remove", "drain"}).Draw(t, "step") {
			case "push":
				d.push(e)
				want = append(want, e.since)
			case "many":
				for range 64 {
					d.push(e)
					want = append(want, e.since)
				}
			case "insert":
				d.insert(at, e)
				want = slices.Insert(want, at, e.since)
			case "remove":
				if rapid.Bool().Draw(t, "from the end") {
					at = max(0, len(want)-1-at)
				}
				if at < len(want) {
					d.removeAt(at)
					want = slices.Delete(want, at, at+1)
				}
			case "drain":
				for range min(len(want), 128) {
					d.removeAt(0)
					want = want[1:]
				}
			}
			var got []time.Duration
			for i := range d.len() {
				got = append(got, d.at(i).since)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got %v\nwant %v", got, want)
			}
			if n := held(&d); n != len(want) {
				t.Fatalf("%d tasks, but it holds %d", len(want), n)
			}
		}
	})
}

// held is how many tasks a deque refers to.
func held(d *deque) (n int) {
	for _, e := range d.all[:cap(d.all)] {
		if e.Task != nil {
			n++
		}
	}
	return n
}
