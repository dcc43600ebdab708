package pending

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// testHooks have a binding without a group, two of one group, and a schedule.
func testHooks() []*hook.Hook {
	var hooks []*hook.Hook
	for _, name := range []string{"x", "y"} {
		k := func(binding, group string) hook.Kubernetes {
			return hook.Kubernetes{Binding: hook.Binding{Name: binding, Group: group}, IncludePrevious: group == "",
				Lanes: hook.Lanes{Key: ".spec.customer", Concurrency: 2}}
		}
		hooks = append(hooks, &hook.Hook{
			Name: name, Kubernetes: []hook.Kubernetes{k("plain", ""), k("g1", "g"), k("g2", "g")},
			Schedules: []hook.Schedule{{Binding: hook.Binding{Name: "tick"}}},
		})
	}
	return hooks
}

func anyEvent(hooks []*hook.Hook) *rapid.Generator[event.Event] {
	return rapid.Custom(func(t *rapid.T) event.Event {
		ev := event.Event{Hook: rapid.SampledFrom(hooks).Draw(t, "hook"),
			Type: rapid.SampledFrom([]event.Type{event.Change, event.Change, event.Change, event.Change, event.Tick, event.Synchronization}).
				Draw(t, "type")}
		if ev.Type != event.Tick {
			ev.Index = rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "index")
		}
		if ev.Type == event.Change {
			ev.Object.Name = rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "name")
			ev.Watch = rapid.SampledFrom([]event.Watch{event.Added, event.Modified, event.Deleting, event.Deleted}).Draw(t, "watch")
		}
		return ev
	})
}

// subjectText is what SubjectOf distinguishes, in other words.
func subjectText(ev event.Event) string {
	if ev.Type != event.Tick && ev.Index > 0 {
		return ev.Hook.Name + " group"
	}
	return fmt.Sprint(ev.Hook.Name, ev.Type, ev.Type == event.Synchronization, ev.Object.Name)
}

// TestLedgerAgainstModel compares a Ledger with plain lists.
func TestLedgerAgainstModel(t *testing.T) {
	rapid.Check(t, checkLedger)
}

func checkLedger(t *rapid.T) {
	type parkedContext struct {
		id, lane string
		run      uint64
		event    event.Event
	}
	type due struct {
		event  event.Event
		at     time.Time
		awaits bool
		run    uint64
	}
	// listInFlight has the objects that were processed since, or are gone.
	type listInFlight struct {
		run   uint64
		later map[string]bool
	}
	hooks := testHooks()
	limit := rapid.IntRange(1, 6).Draw(t, "limit")
	dropped, wantDropped, lost := 0, 0, 0
	l := New(Options{Limit: limit, Dropped: func(event.Event, Reason) { dropped++ }})
	var (
		parked   []parkedContext
		requeues []due
		lists    []listInFlight
		previous = map[string]string{} // versions
		keys     = map[string]string{}
		events   = map[string]int{} // in the lane of the key
	)
	later := func(s string, run uint64) {
		for _, list := range lists {
			if list.run < run {
				list.later[s] = true
			}
		}
	}
	forget := func(s string, run uint64) { later(s, run); delete(previous, s) }
	leave := func(ev event.Event, processed bool) {
		if ev.Type != event.Change || ev.Index > 0 {
			return
		}
		s := subjectText(ev)
		if events[s]--; events[s] <= 0 {
			delete(events, s)
		}
		if !processed && ev.Watch == event.Deleted {
			forget(s, math.MaxUint64)
		}
	}
	drop := func(superseded bool, which func(parkedContext) bool) {
		parked = slices.DeleteFunc(parked, func(c parkedContext) bool {
			if which(c) {
				wantDropped++
				leave(c.event, superseded)
			}
			return which(c)
		})
	}
	cancel := func(which func(due) bool) { requeues = slices.DeleteFunc(requeues, which) }
	for step := range rapid.IntRange(1, 100).Draw(t, "steps") {
		now := time.Unix(0, int64(step)*1000) // no two at one moment
		run, ev := uint64(step), anyEvent([]*hook.Hook{hooks[0], hooks[0], hooks[0], hooks[1]}).Draw(t, "event")
		ev.Object.Kind = fmt.Sprint(step)
		s := subjectText(ev)
		about := func(d due) bool { return subjectText(d.event) == s }
		after := time.Duration(rapid.IntRange(0, 20).Draw(t, "after")) * 1000
		switch rapid.SampledFrom([]string{"park", "park", "park", "park", "done", "done", "done", "drop", "retry", "retry", "remove",
			"success", "requeue", "await", "await", "take", "cancel", "gone", "enter", "enter", "leave", "list", "listed", "end"}).
			Draw(t, "step") {
		case "park":
			all := rapid.SliceOfN(anyEvent(hooks[:1]), 1, 3).Draw(t, "events")
			key := rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key")
			id := fmt.Sprint(step)
			l.park(ParkedTask{ID: id, Hook: hooks[0], Queue: "q", Key: key}, run, slices.Values(all))
			if i := slices.IndexFunc(parked, func(c parkedContext) bool { return c.lane == key }); i >= 0 {
				id = parked[i].id
			}
			for _, ev := range all {
				parked = append(parked, parkedContext{id, key, run, ev})
			}
			beyond := parked[:max(0, len(parked)-limit)]
			parked = parked[len(beyond):]
			for _, c := range beyond {
				wantDropped++
				lost++
				leave(c.event, false)
			}
		case "done":
			run := uint64(rapid.IntRange(0, step).Draw(t, "run"))
			gone := rapid.Bool().Draw(t, "gone") && hasPrevious(&ev)
			meaning := success{run: run, again: ev}
			if after > 0 {
				meaning.at = now.Add(after)
			}
			l.processed(&ev, meaning)
			if hasPrevious(&ev) {
				l.seen(&ev, run, gone)
			}
			ends := ev.Watch != event.Modified && ev.Type == event.Change
			drop(true, func(c parkedContext) bool {
				return subjectText(c.event) == s && c.run < run && (ends || c.event.Watch != event.Deleting)
			})
			cancel(func(d due) bool {
				return about(d) || ev.Type == event.Synchronization && ev.Index == 0 && d.event.Hook == ev.Hook && d.event.Type == event.Change &&
					d.event.Index == 0 && d.run < run && !d.awaits
			})
			if after > 0 {
				requeues = append(requeues, due{ev, now.Add(after), false, run})
			}
			if gone {
				forget(s, run)
			} else if hasPrevious(&ev) {
				later(s, run)
				previous[s] = ev.Object.Kind
			}
		case "success":
			delete(l.lost, hooks[0])
			lost = 0
		case "drop":
			id := fmt.Sprint(rapid.IntRange(0, step).Draw(t, "id"))
			l.Drop(id, 0)
			drop(false, func(c parkedContext) bool { return c.id == id })
		case "retry":
			id := fmt.Sprint(rapid.IntRange(0, step).Draw(t, "id"))
			taken, _ := l.Retry(id)
			var want, got []string
			parked = slices.DeleteFunc(parked, func(c parkedContext) bool {
				if c.id != id {
					return false
				}
				if s := subjectText(c.event); !slices.Contains(want, s) {
					want = append(want, s)
				}
				leave(c.event, true)
				return true
			})
			for _, ev := range taken.Events {
				got = append(got, subjectText(ev))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("retried %q, want %q", got, want)
			}
		case "requeue":
			l.Requeue(ev, now.Add(after), run)
			cancel(about)
			requeues = append(requeues, due{ev, now.Add(after), false, run})
		case "await":
			ev.Object.UID = "1"
			l.AwaitRoom(ev, now)
			cancel(about)
			requeues = append(requeues, due{ev, now.Add(time.Hour), true, 0}) // after all that are due
		case "take":
			slices.SortFunc(requeues, func(a, b due) int { return a.at.Compare(b.at) })
			room := limit - len(parked)
			var all []event.Event
			cancel(func(d due) bool {
				if d.awaits {
					room--
				}
				if d.awaits && room < 0 || !d.awaits && d.at.After(now) {
					return false
				}
				all = append(all, d.event)
				return true
			})
			if got := l.Take(now); !slices.Equal(got, all) {
				t.Fatalf("took %v, want %v", got, all)
			}
		case "cancel":
			l.Cancel(&ev)
			cancel(about)
		case "gone":
			if ev.Type != event.Change {
				break
			}
			if l.Gone(&ev); ev.Index == 0 {
				cancel(about)
				forget(s, math.MaxUint64)
			}
		case "enter":
			ev.Key = fmt.Sprint(step)
			got := ev
			l.Enter(&got)
			if ev.Type == event.Change && ev.Index == 0 {
				if events[s]++; events[s] == 1 {
					keys[s] = ev.Key
				}
				ev.Key = keys[s]
			}
			if got.Key != ev.Key {
				t.Fatalf("key %s, want %s", got.Key, ev.Key)
			}
		case "leave":
			processed := rapid.Bool().Draw(t, "processed")
			l.Leave(&ev, processed)
			leave(ev, processed)
		case "list":
			l.beginList(run)
			lists = append(lists, listInFlight{run, map[string]bool{}})
		case "listed":
			if len(lists) == 0 || !hasPrevious(&ev) {
				break
			}
			list := rapid.SampledFrom(lists).Draw(t, "list")
			if l.Listed(&ev, list.run); !list.later[s] {
				previous[s] = ev.Object.Kind
				later(s, list.run)
			}
		case "end":
			if len(lists) > 0 {
				lists = lists[1:]
				l.endList()
			}
		case "remove":
			l.Retain(func(h *hook.Hook) bool { return h != ev.Hook })
			drop(false, func(c parkedContext) bool { return c.event.Hook == ev.Hook })
			cancel(func(d due) bool { return d.event.Hook == ev.Hook })
			maps.DeleteFunc(previous, func(s, _ string) bool { return strings.HasPrefix(s, ev.Hook.Name) })
			lists = nil // of hooks that are removed nothing is kept
			for range l.lists {
				l.endList()
			}
			if ev.Hook == hooks[0] {
				lost = 0
			}
		}
		counts := map[string]int{}
		for _, c := range parked {
			counts[c.id]++
		}
		for _, task := range l.Parked(0) {
			if task.Contexts != counts[task.ID] {
				t.Fatalf("task %s has %d contexts, want %d", task.ID, task.Contexts, counts[task.ID])
			}
			delete(counts, task.ID)
		}
		slices.SortFunc(requeues, func(a, b due) int { return a.at.Compare(b.at) })
		at, ok := l.Next()
		if p, r := l.contexts.Len(), l.requeues.Len(); p != len(parked) || r != len(requeues) || dropped != wantDropped ||
			len(counts) > 0 || l.Lost()[hooks[0]] != lost || ok != (len(requeues) > 0 && !requeues[0].awaits) || ok && !at.Equal(requeues[0].at) {
			t.Fatalf("%d contexts, %d requeues, %d dropped, want %d, %d, %d; missing tasks: %v", p, r, dropped, len(parked), len(requeues),
				wantDropped, counts)
		}
		wantDue, gotDue := map[string]string{}, map[string]string{}
		for _, d := range slices.Backward(requeues) { // the first one is the last
			if !d.awaits {
				var events, objects int
				_, _ = fmt.Sscan(wantDue[d.event.Hook.Name], &events, &objects)
				if d.event.Object.Name != "" && d.event.Index == 0 {
					objects++
				}
				wantDue[d.event.Hook.Name] = fmt.Sprint(events+1, objects, d.at)
			}
		}
		for _, d := range l.Due() {
			gotDue[d.Hook.Name] = fmt.Sprint(d.Events, d.Objects, d.Next)
		}
		got, _ := l.Last(&ev)
		if !maps.Equal(gotDue, wantDue) || got.Kind != previous[s] || (l.Key(&ev) != "") != (events[s] > 0) {
			t.Fatalf("due %v, want %v; previous %q, want %q; %d events in the lane %q", gotDue, wantDue, got.Kind, previous[s], events[s],
				l.Key(&ev))
		}
	}
	l.Retain(func(*hook.Hook) bool { return false })
	for _, r := range l.all() {
		if r.events == 0 {
			t.Fatalf("left: %+v", *r)
		}
	}
}

// TestRetry: the parked contexts of a subject are retried as one event, which reads the object later, but for Deleted.
func TestRetry(t *testing.T) {
	h := testHooks()[0]
	watches := map[string]event.Watch{"Added": event.Added, "Modified": event.Modified, "Deleted": event.Deleted, "Deleting": event.Deleting,
		"Requeued": event.Requeued}
	for parked, want := range map[string]string{
		"Added": "Added", "Modified": "Modified", "Requeued": "Requeued", "Deleting": "Deleting",
		"Deleted":                         "Deleted k object",
		"Added Modified Modified":         "Added",
		"Modified Requeued":               "Modified",
		"Added Modified Deleted":          "Deleted k object",
		"Deleted Added Modified":          "Added",
		"Deleted Modified":                "Modified",
		"Modified Deleting":               "Deleting",
		"Deleting Modified Requeued":      "Deleting",
		"Added Deleting Deleted":          "Deleted k object",
		"Added Deleting Added Modified":   "Added",
		"Modified Deleted Added Deleting": "Deleting",
	} {
		l := New(Options{})
		var events []event.Event
		for _, w := range strings.Fields(parked) {
			events = append(events, event.Event{Type: event.Change, Hook: h, Watch: watches[w], Initial: true, Object: event.Object{
				Name: "a", Kind: "Order", Full: event.Memory("{}")}})
		}
		l.park(ParkedTask{ID: "1", Hook: h, Queue: "q", Key: "k"}, 1, slices.Values(events))
		task, _ := l.Retry("1")
		if len(task.Events) != 1 || task.Contexts != len(events) {
			t.Fatalf("%s: %d events for %d contexts", parked, len(task.Events), task.Contexts)
		}
		ev := task.Events[0]
		got := strings.TrimSpace(ev.Watch.String() + " " + ev.Key)
		if ev.Object.Full != nil {
			got += " object"
		}
		if got != want || !ev.Retried || ev.Initial || ev.Object.Kind != "Order" {
			t.Errorf("%s is retried as %q, want %q: %+v", parked, got, want, ev)
		}
	}
}

// A pending requeue takes less than 1 KiB.
func TestSizeOfARequeue(t *testing.T) {
	const n = 10_000
	h := testHooks()[0]
	events := make([]event.Event, n)
	for i := range events {
		events[i] = event.Event{Type: event.Change, Hook: h, Object: event.Object{Name: fmt.Sprint("object-", i)}}
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	l := New(Options{})
	for i, ev := range events {
		l.Requeue(ev, time.Unix(int64(i), 0), 0)
	}
	if each := (heap() - before) / n; each > 1024 {
		t.Errorf("a requeue takes %d bytes", each)
	} else {
		t.Logf("%d bytes", each)
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(events)
}
