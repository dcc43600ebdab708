package event

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/hook"
)

var payloads = rapid.Custom(func(t *rapid.T) Payload {
	if rapid.Bool().Draw(t, "none") {
		return nil
	}
	return Memory(strings.Repeat("x", rapid.SampledFrom([]int{0, 1, Small, 2000}).Draw(t, "length")))
})

var anyEvents = rapid.Custom(func(t *rapid.T) Event {
	return Event{
		Type: Type(rapid.IntRange(int(Startup), int(HTTP)).Draw(t, "type")), Index: rapid.SampledFrom([]int{0, 1, 200}).Draw(t, "index"),
		Watch: Watch(rapid.IntRange(0, int(Deleted)).Draw(t, "watch")), Initial: rapid.Bool().Draw(t, "initial"),
		Retried: rapid.Bool().Draw(t, "retried"),
		Key:     rapid.SampledFrom([]string{"", "k"}).Draw(t, "key"),
		Object: Object{
			Namespace: rapid.SampledFrom([]string{"", "default", "shop"}).Draw(t, "namespace"),
			Kind:      rapid.SampledFrom([]string{"", "Pod"}).Draw(t, "kind"),
			Name:      rapid.SampledFrom([]string{"", "a", strings.Repeat("long", 60)}).Draw(t, "name"),
			Full:      payloads.Draw(t, "full"), Filtered: payloads.Draw(t, "filtered"),
		},
	}
})

// TestLogAgainstList does to Logs what is done to plain lists.
func TestLogAgainstList(t *testing.T) {
	h := &hook.Hook{}
	rapid.Check(t, func(t *rapid.T) {
		var logs [3]Log
		var lists [3][]Event
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			i, j := rapid.IntRange(0, 2).Draw(t, "to"), rapid.IntRange(0, 2).Draw(t, "from")
			switch step := rapid.SampledFrom([]string{"add", "add", "many", "join", "drop", "drop", "split", "modified", "modified"}).
				Draw(t, "step"); {
			case step == "add":
				ev := anyEvents.Draw(t, "event")
				logs[i].Add(ev)
				ev.Hook = h
				lists[i] = append(lists[i], ev)
			case step == "many": // more than a chunk
				ev := anyEvents.Draw(t, "event")
				for range rapid.SampledFrom([]int{chunk - 1, chunk, chunk + 1}).Draw(t, "times") {
					logs[i].Add(ev)
				}
				ev.Hook = h
				lists[i] = append(lists[i], slices.Repeat([]Event{ev}, logs[i].Len()-len(lists[i]))...)
			case step == "drop" && len(lists[i]) > 0:
				logs[i].DropLast()
				lists[i] = lists[i][:len(lists[i])-1]
			case step == "split" && i != j && len(lists[i]) > 1:
				n := rapid.IntRange(1, len(lists[i])-1).Draw(t, "kept")
				logs[j] = logs[i].Split(n)
				lists[i], lists[j] = lists[i][:n:n], slices.Clone(lists[i][n:])
			case step == "modified":
				ev := anyEvents.Draw(t, "event")
				if len(lists[i]) > 0 && rapid.Bool().Draw(t, "of one that waits") {
					ev = lists[i][rapid.IntRange(0, len(lists[i])-1).Draw(t, "place")]
				}
				if rapid.Bool().Draw(t, "is modified") {
					ev.Watch = Modified
				}
				want := false
				at := len(lists[i]) - 1
				for ; at >= 0; at-- {
					if other := lists[i][at]; other.Type == ev.Type && other.Index == ev.Index && other.Object.Namespace == ev.Object.Namespace &&
						other.Object.Name == ev.Object.Name {
						break
					}
				}
				if want = at >= 0 && ev.Watch == Modified && lists[i][at].Watch == Modified; want {
					lists[i] = slices.Delete(slices.Clone(lists[i]), at, at+1)
				}
				if dropped, found := logs[i].DropModified(&ev); dropped != want || found != (at >= 0) {
					t.Fatalf("dropped %t, found %t, want %t and the place %d", dropped, found, want, at)
				}
			case step == "join" && i != j:
				logs[i].Join(logs[j])
				lists[i] = append(lists[i], lists[j]...)
				logs[j], lists[j] = Log{}, nil
			}
			if err := differs(&logs[i], h, lists[i]); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func differs(l *Log, h *hook.Hook, want []Event) error {
	if l.Len() != len(want) {
		return fmt.Errorf("%d events, want %d", l.Len(), len(want))
	}
	got := slices.Collect(l.All(h))
	if !slices.EqualFunc(got, want, func(a, b Event) bool { return reflect.DeepEqual(a, b) }) {
		return fmt.Errorf("got %v\nwant %v", got, want)
	}
	if n := len(want); n > 0 && (!reflect.DeepEqual(l.First(h), want[0]) || !reflect.DeepEqual(l.Last(h), want[n-1])) {
		return fmt.Errorf("ends with %v and %v, want %v and %v", l.First(h), l.Last(h), want[0], want[n-1])
	}
	return nil
}
