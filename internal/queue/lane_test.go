package queue

import (
	"slices"
	"testing"
	"time"
)

// Whichever end is nearer, the others keep their order, and the entry of a removed task is released.
func TestRemoveTask(t *testing.T) {
	for at := range 5 {
		var l lane
		want := []time.Duration{0, 1, 2, 3, 4}
		for _, i := range want {
			l.tasks = append(l.tasks, entry{&funcTask{}, i})
		}
		all := l.tasks
		l.remove(at)
		want = slices.Delete(want, at, at+1)
		held := slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return e.Task == nil })
		if !slices.EqualFunc(l.tasks, want, func(e entry, i time.Duration) bool { return e.since == i }) || len(held) != len(want) {
			t.Errorf("without %d: %v, held are %v", at, l.tasks, held)
		}
	}
}
