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

// onDisk stands for a payload that is not in memory.
type onDisk struct{ text string }

func (o *onDisk) Len() int               { return len(o.text) }
func (o *onDisk) Bytes() ([]byte, error) { return []byte(o.text), nil }

var payloads = rapid.Custom(func(t *rapid.T) Payload {
	text := strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 9, Small, Small + 1, 2000}).Draw(t, "length"))
	switch rapid.IntRange(0, 3).Draw(t, "payload") {
	case 0:
		return nil
	case 1:
		return &onDisk{text}
	}
	return Memory(text)
})

var anyEvents = rapid.Custom(func(t *rapid.T) Event {
	return Event{
		Type: Type(rapid.IntRange(int(Startup), int(HTTP)).Draw(t, "type")), Index: rapid.SampledFrom([]int{0, 1, 200}).Draw(t, "index"),
		Watch: Watch(rapid.IntRange(0, int(Deleted)).Draw(t, "watch")),
		Object: Object{
			Namespace: rapid.SampledFrom([]string{"", "default", "shop"}).Draw(t, "namespace"), Kind: rapid.SampledFrom([]string{"", "Pod"}).Draw(t, "kind"),
			Name: rapid.SampledFrom([]string{"", "a", strings.Repeat("long", 60)}).Draw(t, "name"),
			Full: payloads.Draw(t, "full"), Filtered: payloads.Draw(t, "filtered"),
		},
	}
})

// TestLogAgainstList does to Logs what is done to plain lists.
func TestLogAgainstList(t *testing.T) {
	h := &hook.Hook{}
	rapid.Check(t, func(t *rapid.T) {
		var logs [3]Log
		var lists [3][]Event
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			i, j := rapid.IntRange(0, 2).Draw(t, "to"), rapid.IntRange(0, 2).Draw(t, "from")
			switch step := rapid.SampledFrom([]string{"add", "add", "add", "join", "over"}).Draw(t, "step"); {
			case step == "add":
				ev := anyEvents.Draw(t, "event")
				logs[i].Add(ev)
				ev.Hook = h
				lists[i] = append(lists[i], ev)
			case i == j:
			case step == "join":
				logs[i].Join(logs[j])
				lists[i] = append(lists[i], lists[j]...)
				logs[j], lists[j] = Log{}, nil
			case len(lists[j]) > 0:
				logs[i].JoinOver(logs[j])
				lists[i] = append(lists[i][:max(0, len(lists[i])-1)], lists[j]...)
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
	if got := slices.Collect(l.All(h)); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got %v\nwant %v", got, want)
	}
	var addresses []Event
	for _, ev := range want {
		ev.Object = Object{}
		addresses = append(addresses, ev)
	}
	if got := slices.Collect(l.Addresses(h)); !reflect.DeepEqual(got, addresses) {
		return fmt.Errorf("got addresses %v\nwant %v", got, addresses)
	}
	if n := len(addresses); n > 0 && (l.First(h) != addresses[0] || l.Last(h) != addresses[n-1]) {
		return fmt.Errorf("ends with %v and %v, want %v and %v", l.First(h), l.Last(h), addresses[0], addresses[n-1])
	}
	return nil
}

// What is joined over and over, as the events of a group are, does not grow.
func TestJoinOverDoesNotGrow(t *testing.T) {
	var l Log
	for range 2 {
		l.Add(Event{Type: Change, Object: Object{Namespace: "default", Name: "a", Kind: "Pod"}})
	}
	for range 10_000 {
		l.JoinOver(LogOf(Event{Type: Change, Object: Object{Namespace: "default", Name: "a", Kind: "Pod"}}))
	}
	if l.Len() != 2 || len(l.text) > 100 || len(l.more.full) > 0 {
		t.Errorf("%d events in %d bytes and %d chunks", l.Len(), len(l.text), len(l.more.full))
	}
}

func TestAllEndsEarly(t *testing.T) {
	var l Log
	for i := range 1000 {
		l.Add(Event{Type: Tick, Index: i})
	}
	for ev := range l.All(nil) {
		if ev.Index == 900 {
			return
		}
	}
	t.Error("the event is not there")
}
