package pending

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
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
			return hook.Kubernetes{Binding: hook.Binding{Name: binding, Group: group}, Lanes: hook.Lanes{Key: ".spec.customer", Concurrency: 2}}
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
			Type: rapid.SampledFrom([]event.Type{event.Change, event.Change, event.Tick, event.Synchronization}).Draw(t, "type")}
		if ev.Type != event.Tick {
			ev.Index = rapid.IntRange(0, 2).Draw(t, "index")
		}
		if ev.Type == event.Change {
			ev.Object.Name = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
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

// TestParkedAgainstModel compares Parked with a plain list.
func TestParkedAgainstModel(t *testing.T) {
	type parkedContext struct {
		id, lane string
		run      uint64
		event    event.Event
	}
	// parkedLane is the lane of a task that was taken, to be parked again.
	type parkedLane struct {
		number int
		lane   string
		run    uint64
	}
	// revived is a context that was taken and has not begun.
	type revived struct {
		event                event.Event
		run                  uint64
		superseded, deletion uint64
	}
	hooks := testHooks()
	rapid.Check(t, func(t *rapid.T) {
		dropped := 0
		var retried []parkedLane
		var waiting []revived
		lost := 0
		limit := rapid.IntRange(1, 6).Draw(t, "limit")
		p := NewParked(limit, func(event.Event, Reason) { dropped++ })
		var want []parkedContext
		wantDropped := 0
		drop := func(which func(parkedContext) bool) {
			before := len(want)
			want = slices.DeleteFunc(want, which)
			wantDropped += before - len(want)
		}
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			run := uint64(step)
			kind := rapid.SampledFrom([]string{"park", "park", "park", "again", "succeed", "succeed", "succeed", "drop", "take", "take",
				"take", "begin", "begin", "remove", "success"}).Draw(t, "step")
			switch kind {
			case "park", "again":
				events := rapid.SliceOfN(anyEvent(hooks[:1]), 1, 3).Draw(t, "events")
				key := rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key")
				number, before := step, run
				if kind == "again" && len(retried) > 0 {
					of := rapid.SampledFrom(retried).Draw(t, "retried")
					number, key, before = of.number, of.lane, of.run
					for i := range events {
						events[i].Revived = event.Begun
					}
				}
				p.Park(ParkedTask{ID: fmt.Sprint(number), Hook: hooks[0], Queue: "q", Key: key, Run: before}, run, slices.Values(events))
				for _, c := range want {
					if c.lane == key {
						earlier, err := strconv.Atoi(c.id)
						if err != nil {
							t.Fatal(err)
						}
						number = min(number, earlier)
					}
				}
				id := fmt.Sprint(number)
				for i := range want {
					if want[i].lane == key {
						want[i].id = id
					}
				}
				for _, ev := range events {
					ev.Revived = 0
					want = append(want, parkedContext{id, key, before, ev})
				}
				if beyond := len(want) - limit; beyond > 0 {
					want, wantDropped, lost = want[beyond:], wantDropped+beyond, lost+beyond
				}
			case "succeed":
				ev, before := anyEvent(hooks).Draw(t, "event"), uint64(rapid.IntRange(0, step).Draw(t, "run"))
				p.Supersede(&ev, before)
				ends := ev.Watch != event.Modified && ev.Type == event.Change
				drop(func(c parkedContext) bool {
					return subjectText(c.event) == subjectText(ev) && c.run < before && (ends || c.event.Watch != event.Deleting)
				})
				for i := range waiting {
					if w := &waiting[i]; subjectText(w.event) == subjectText(ev) {
						if w.superseded = max(w.superseded, before); ends {
							w.deletion = max(w.deletion, before)
						}
					}
				}
			case "success":
				p.Succeeded(hooks[0])
				lost = 0
			case "begin":
				if len(waiting) == 0 {
					break
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
				w := waiting[i]
				waiting = slices.Delete(waiting, i, i+1)
				outdated := w.superseded > w.run && w.event.Watch != event.Deleting || w.deletion > w.run
				if outdated {
					wantDropped++
				}
				if got := p.Begin(&w.event, w.run); got != outdated {
					t.Fatalf("%+v: superseded %t, want %t", w, got, outdated)
				}
			case "drop":
				id := fmt.Sprint(rapid.IntRange(0, step).Draw(t, "id"))
				p.Drop(id, 0)
				drop(func(c parkedContext) bool { return c.id == id })
			case "take":
				number := rapid.IntRange(0, step).Draw(t, "id")
				id := fmt.Sprint(number)
				taken, found := p.Take(id)
				var events []event.Event
				var contexts []parkedContext
				want = slices.DeleteFunc(want, func(c parkedContext) bool {
					if c.id == id {
						contexts = append(contexts, c)
					}
					return c.id == id
				})
				slices.SortStableFunc(contexts, func(a, b parkedContext) int { return cmp.Compare(a.run, b.run) })
				for _, c := range contexts {
					c.event.Revived = event.Queued
					events = append(events, c.event)
					last := contexts[len(contexts)-1].run
					waiting = append(waiting, revived{event: c.event, run: last})
				}
				if found {
					retried = append(retried, parkedLane{number, taken.Key, taken.Run})
				}
				if !slices.Equal(taken.Events, events) {
					t.Fatalf("took %v, want %v", taken.Events, events)
				}
			case "remove":
				gone := rapid.SampledFrom(hooks).Draw(t, "gone")
				p.Retain(func(h *hook.Hook) bool { return h != gone })
				drop(func(c parkedContext) bool { return c.event.Hook == gone })
				waiting = slices.DeleteFunc(waiting, func(w revived) bool { return w.event.Hook == gone })
				if gone == hooks[0] {
					lost = 0
				}
			}
			counts := map[string]int{}
			for _, c := range want {
				counts[c.id]++
			}
			for _, task := range p.List(0) {
				if task.Contexts != counts[task.ID] {
					t.Fatalf("task %s has %d contexts, want %d", task.ID, task.Contexts, counts[task.ID])
				}
				delete(counts, task.ID)
			}
			if p.Len() != len(want) || dropped != wantDropped || len(counts) > 0 || p.Lost()[hooks[0]] != lost ||
				p.Idle() != (len(want)+len(waiting) == 0) {
				t.Fatalf("%d contexts, %d dropped, want %d and %d; missing tasks: %v", p.Len(), dropped, len(want), wantDropped, counts)
			}
		}
	})
}

// TestRequeuesAgainstModel compares Requeues with a plain list.
func TestRequeuesAgainstModel(t *testing.T) {
	type due struct {
		event event.Event
		at    int
		run   uint64
	}
	const waitsForRoom = math.MaxUint64 // no run
	hooks := testHooks()
	began := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		r := NewRequeues()
		var want []due
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			ev := anyEvent(hooks).Draw(t, "event")
			cancel := func(which func(due) bool) { want = slices.DeleteFunc(want, which) }
			switch rapid.SampledFrom([]string{"set", "set", "set", "await", "await", "room", "cancel", "objects", "take", "remove"}).
				Draw(t, "step") {
			case "set":
				at := rapid.IntRange(0, 1000).Draw(t, "at")*30 + step // no two at one moment
				r.Set(ev, began.Add(time.Duration(at)), uint64(step))
				cancel(func(d due) bool { return subjectText(d.event) == subjectText(ev) })
				want = append(want, due{ev, at, uint64(step)})
			case "await":
				at := 40_000 + step // after all that are due
				ev.Object.UID = "1"
				r.AwaitRoom(ev, began.Add(time.Duration(at)))
				cancel(func(d due) bool { return subjectText(d.event) == subjectText(ev) })
				want = append(want, due{ev, at, waitsForRoom})
			case "room":
				slices.SortFunc(want, func(a, b due) int { return cmp.Compare(a.at, b.at) })
				n := rapid.IntRange(-1, 2).Draw(t, "room")
				var events []event.Event
				want = slices.DeleteFunc(want, func(d due) bool {
					if d.run != waitsForRoom || len(events) >= n {
						return false
					}
					events = append(events, d.event)
					return true
				})
				if got := r.TakeWaiting(n); !slices.Equal(got, events) {
					t.Fatalf("took %v, want %v", got, events)
				}
			case "cancel":
				r.Cancel(SubjectOf(&ev))
				cancel(func(d due) bool { return subjectText(d.event) == subjectText(ev) })
			case "objects":
				run := uint64(rapid.IntRange(0, step).Draw(t, "run"))
				r.CancelObjects(ev.Hook, 0, run)
				cancel(func(d due) bool {
					return d.event.Hook == ev.Hook && d.event.Type == event.Change && d.event.Index == 0 && d.run < run
				})
			case "take":
				now := rapid.IntRange(0, 30_000).Draw(t, "now")
				slices.SortFunc(want, func(a, b due) int { return cmp.Compare(a.at, b.at) })
				var events []event.Event
				for len(want) > 0 && want[0].at <= now && want[0].run != waitsForRoom {
					events, want = append(events, want[0].event), want[1:]
				}
				if got := r.Take(began.Add(time.Duration(now))); !slices.Equal(got, events) {
					t.Fatalf("took %v, want %v", got, events)
				}
			case "remove":
				r.Retain(func(h *hook.Hook) bool { return h != ev.Hook })
				cancel(func(d due) bool { return d.event.Hook == ev.Hook })
			}
			slices.SortFunc(want, func(a, b due) int { return cmp.Compare(a.at, b.at) })
			at, ok := r.Next()
			if r.Len() != len(want) || ok != (len(want) > 0 && want[0].run != waitsForRoom) ||
				ok && !at.Equal(began.Add(time.Duration(want[0].at))) {
				t.Fatalf("%d requeues, the next one at %v, want %v", r.Len(), at.Sub(began), want)
			}
			wantDue, gotDue := map[string]string{}, map[string]string{}
			for _, d := range slices.Backward(want) { // the first one is the last
				if d.run != waitsForRoom {
					var events, objects int
					_, _ = fmt.Sscan(wantDue[d.event.Hook.Name], &events, &objects)
					if d.event.Object.Name != "" && subjectText(d.event) != d.event.Hook.Name+" group" {
						objects++
					}
					wantDue[d.event.Hook.Name] = fmt.Sprint(events+1, objects, d.at)
				}
			}
			for _, d := range r.Due() {
				gotDue[d.Hook.Name] = fmt.Sprint(d.Events, d.Objects, int(d.Next.Sub(began)))
			}
			if !maps.Equal(gotDue, wantDue) {
				t.Fatalf("due %v, want %v", gotDue, wantDue)
			}
		}
	})
}

// An object stays in its lane until its last event has left.
func TestLanes(t *testing.T) {
	h := testHooks()[0]
	var p Lanes
	change := func(index int, name, key string) event.Event {
		return event.Event{Type: event.Change, Hook: h, Index: index, Object: event.Object{Name: name}, Key: key}
	}
	enter := func(ev event.Event) string { p.Enter(&ev); return ev.Key }
	first, again, other := change(0, "a", "red"), change(0, "a", "blue"), change(0, "b", "blue")
	if got := []string{enter(first), enter(again), enter(other)}; !slices.Equal(got, []string{"red", "red", "blue"}) {
		t.Errorf("lanes %v", got)
	}
	p.Leave(&first)
	if got := enter(again); got != "red" {
		t.Errorf("with an event left in red: %s", got)
	}
	p.Leave(&again)
	p.Leave(&again)
	if got := enter(again); got != "blue" {
		t.Errorf("without events: %s", got)
	}
	p.Leave(&again)
	p.Leave(&other)
	if len(p.of) > 0 {
		t.Errorf("%d objects are left", len(p.of))
	}
	if grouped := change(1, "a", ""); enter(grouped) != "" || len(p.of) > 0 {
		t.Error("a group has its own lane")
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
	r := NewRequeues()
	for i, ev := range events {
		r.Set(ev, time.Unix(int64(i), 0), 0)
	}
	if each := (heap() - before) / n; each > 1024 {
		t.Errorf("a requeue takes %d bytes", each)
	} else {
		t.Logf("%d bytes", each)
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(events)
}

// BenchmarkDropAll drops parked tasks one by one, of different lanes, of one subject and of one task.
func BenchmarkDropAll(b *testing.B) {
	const tasks = 10_000
	h := testHooks()[0]
	for name, eventOf := range map[string]func(i int) event.Event{
		"objects": func(i int) event.Event {
			return event.Event{Type: event.Change, Hook: h, Object: event.Object{Name: fmt.Sprint(i)}}
		},
		"group": func(int) event.Event { return event.Event{Type: event.Change, Hook: h, Index: 1} },
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				p := NewParked(0, func(event.Event, Reason) {})
				for i := range tasks {
					p.Park(ParkedTask{ID: fmt.Sprint(i), Hook: h, Queue: "q", Key: fmt.Sprint(i)}, 1, slices.Values([]event.Event{eventOf(i)}))
				}
				for i := range tasks {
					p.Drop(fmt.Sprint(i), 0)
				}
				if p.Len() > 0 {
					b.Fatal("contexts are left")
				}
			}
		})
	}
}
