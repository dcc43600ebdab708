package run

import (
	"iter"
	"maps"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// contexts joins the first n of the task's events with the frames of their bindings. It makes contexts one at a time, because there may be
// very many.
func (a *Attempt) contexts(frames []wire.Context, n int) iter.Seq[wire.Context] {
	return func(yield func(wire.Context) bool) {
		previous, left := func(event.Event) *event.Object { return nil }, n
		if a.Previous != nil {
			previous = a.Previous()
		}
		for ev := range a.Task.Events() {
			if left--; left < 0 {
				return
			}
			c := frames[frameOf(frames, &ev)]
			c.Event, c.Previous = ev, previous(ev)
			if !yield(c) {
				return
			}
		}
	}
}

// objects yields the objects in the contexts: first the initial lists, then the events. Contexts of a group have snapshots only.
func (t *Task) objects(lists []event.Snapshot) iter.Seq[event.Object] {
	return func(yield func(event.Object) bool) {
		for _, list := range lists {
			for o := range list.Each {
				if !yield(o) {
					return
				}
			}
		}
		for ev := range t.Events() {
			if ev.Type == event.Change && ev.Binding().Group == "" && !yield(ev.Object) {
				return
			}
		}
	}
}

// frames returns a context without its event for each binding that the task has events of. It takes each snapshot once.
func (r *Runner) frames(t *Task) (frames []wire.Context) {
	h, m := t.Hook(), t.readExtra()
	taken := map[int]event.Snapshot{}
	for _, index := range m.unlocks {
		// A binding without a Synchronization run receives the changes since then as events, so the buffered ones
		// must stay.
		if h.Kubernetes[index].Initial == hook.InitialList {
			taken[index] = r.opts.Snapshots.Synchronize(h, index)
		}
	}
	snapshot := func(index int) event.Snapshot {
		if _, ok := taken[index]; ok {
			return taken[index]
		}
		taken[index] = r.opts.Snapshots.Snapshot(h, index)
		return taken[index]
	}
	for ev := range t.Events() {
		if frameOf(frames, &ev) >= 0 {
			continue
		}
		c := wire.Context{Event: ev}
		if m.review != nil {
			c.Review, c.Step, c.Request = m.review.Body, m.review.Step, m.review.Request
		}
		if ev.Type == event.Synchronization {
			c.Objects = event.Own(snapshot(ev.Index))
		}
		for _, index := range ev.Binding().Includes {
			c.Snapshots = append(c.Snapshots, wire.NamedSnapshot{Name: h.Kubernetes[index].Name, Snapshot: snapshot(index)})
		}
		frames = append(frames, c)
	}
	return frames
}

// frameOf returns the index of an event's binding in frames, or -1.
func frameOf(frames []wire.Context, ev *event.Event) int {
	for i := range frames {
		if of := &frames[i].Event; of.Type == ev.Type && of.Index == ev.Index {
			return i
		}
	}
	return -1
}

// Shows returns the kubernetes bindings whose objects the contexts of the task contain as they are at the start of its run.
func (t *Task) Shows() map[int]bool {
	m := t.readExtra()
	all := map[int]bool{}
	for _, index := range m.unlocks {
		all[index] = t.Hook().Kubernetes[index].Initial == hook.InitialList
	}
	last := event.Event{Index: -1}
	for ev := range t.Events() {
		if ev.Type == event.Synchronization || ev.Refreshed() {
			all[ev.Index] = true
		}
		if ev.Type == last.Type && ev.Index == last.Index {
			continue
		}
		last = ev
		for _, index := range ev.Binding().Includes {
			all[index] = true
		}
	}
	maps.DeleteFunc(all, func(_ int, shown bool) bool { return !shown })
	return all
}
