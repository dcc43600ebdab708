package watch

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// A view is a map: each step makes the change that follows from the two states, in the order of keys, and changes no copy.
func TestViewAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, states, want := view{keys: map[string]string{}}, map[string]string{}, Changes{}
		same := func(before, now item) bool { return string(before.filtered) == string(now.filtered) }
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			key, text := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), rapid.SampledFrom([]string{"1", "2"}).Draw(t, "text")
			before, had := states[key]
			copied, length := v.items.Copy(), len(states)
			o := &stream.Object{Key: key}
			it, _ := v.items.Get(key)
			if had && rapid.Bool().Draw(t, "remove") {
				delete(states, key)
				want.Deleted++
				if c := v.remove(it, o); c.watch != event.Deleted || c.Object != o || string(c.Filtered) != before || c.Key != "key "+before {
					t.Fatalf("removed %q: %+v", before, c)
				}
			} else {
				states[key] = text
				c, changed := v.set(item{object: o, filtered: []byte(text)}, "key "+text, same)
				wanted := event.Modified
				switch {
				case !had:
					want.Added++
					wanted = event.Added
				case before != text:
					want.Modified++
				}
				if changed != (before != text) || c.watch != wanted || had && c.before != it.object || c.Key != "key "+text || c.Object != o {
					t.Fatalf("%q, then %q: changed %t, %+v", before, text, changed, c)
				}
			}
			it, _ = v.items.Get(key)
			_, has := states[key]
			if got := fmt.Sprint(v.items.Keys()); got != fmt.Sprint(slices.Sorted(maps.Keys(states))) || len(v.keys) != len(states) ||
				has != (it.object == o) || v.changes != want || copied.Len() != length {
				t.Fatalf("objects %s, changes %+v, a copy with %d objects", got, v.changes, copied.Len())
			}
		}
	})
}
