package run

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Writes compares the snapshots of bindings with changes by runs.
type Writes interface {
	// Delivers returns what the bindings of a hook will show of a change by one of its runs, by stream of objects;
	// nothing if they select other objects.
	Delivers(h *hook.Hook, a effect.Answered) []effect.Write
	// Processed returns a change that the snapshots of a binding lack, and what returns a channel that is closed when they lack none of them
	// any more, or cannot be expected to show them; nil if that is so now.
	Processed(h *hook.Hook, index int, writes iter.Seq[effect.Write]) (lacking effect.Write, shown func() <-chan struct{})
	// Own prepares a request of a run, as effect.Owned, for the bindings that ignore changes by the hook. Reported: the run sets the condition
	// of the object.
	Own(h *hook.Hook, group, resource, namespace, name string, reported bool) (known effect.Known, written func(before, after string))
}

const (
	// ownBound limits the wait of a run for what earlier runs of its lane have written.
	ownBound = 5 * time.Second
	// maxGone is the number of deleted objects that are remembered of a lane.
	maxGone = 256
	// sweepEvery is the number of lanes of a hook at which those are dropped whose writes are shown, and a multiple of it.
	sweepEvery = 64
)

// writes are changes by runs: the highest version of each stream, and objects that are gone, by uid.
type writes map[string]effect.Write

func (w writes) add(more iter.Seq[effect.Write]) {
	for one := range more {
		switch {
		case one.Version > 0:
			if w[one.Stream].Version < one.Version {
				w[one.Stream] = one
			}
		case w.gone() < maxGone:
			w[one.UID] = one
		}
	}
}

func (w writes) gone() (n int) {
	for _, one := range w {
		if one.Version == 0 {
			n++
		}
	}
	return n
}

// ownWrites are what runs have written and the snapshots may not show yet, by the name of the hook: a reload keeps them.
type ownWrites struct {
	mu sync.Mutex
	of map[string]*hookWrites
}

// hookWrites are the changes by the runs of one hook.
type hookWrites struct {
	lanes map[laneOf]writes
	// late are the bindings, by index, for which a run has waited in vain, with all writes since. No run waits for them until they show these.
	late map[int]writes
}

// laneOf identifies the lane of a task.
type laneOf struct{ queue, key string }

func (t *Task) lane() laneOf { return laneOf{t.Queue(), t.readExtra().last.key} }

// ownWait is the wait of a run for what earlier runs of its lane have written.
type ownWait struct {
	since time.Time
	took  time.Duration
	// lacking is what the snapshots still lack after ownBound.
	lacking string
}

// unshownError is why a run has not begun: snapshots of its contexts lack what an earlier one has written.
type unshownError struct {
	shown <-chan struct{}
	left  time.Duration
}

func (e *unshownError) Error() string { return "the snapshots lack what an earlier run has written" }

// Until implements queue.Blocked.
func (e *unshownError) Until() (signal <-chan struct{}, most time.Duration) { return e.shown, e.left }

// noteWrites makes the requests of a run with the context noted for later runs of its lane.
func (r *Runner) noteWrites(ctx context.Context, t *Task) context.Context {
	if r.opts.Writes == nil {
		return ctx
	}
	if slices.ContainsFunc(t.Hook().Kubernetes, func(k hook.Kubernetes) bool { return k.IgnoreOwn }) {
		ctx = effect.WithOwned(ctx, func(group, resource, namespace, name string) (effect.Known, func(before, after string)) {
			return r.opts.Writes.Own(t.Hook(), group, resource, namespace, name, t.Reports(namespace, name))
		})
	}
	if t.readExtra().review != nil {
		return ctx
	}
	return effect.WithAnswers(ctx, func(a effect.Answered) {
		if more := r.opts.Writes.Delivers(t.Hook(), a); len(more) > 0 {
			r.own.note(r.opts.Writes, t, more)
		}
	})
}

func (o *ownWrites) note(by Writes, t *Task, more []effect.Write) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.of[t.Hook().Name]
	if of == nil {
		if o.of == nil {
			o.of = map[string]*hookWrites{}
		}
		of = &hookWrites{lanes: map[laneOf]writes{}, late: map[int]writes{}}
		o.of[t.Hook().Name] = of
	}
	lane := of.lanes[t.lane()]
	if lane == nil {
		if n := len(of.lanes); n > 0 && n%sweepEvery == 0 {
			maps.DeleteFunc(of.lanes, func(_ laneOf, w writes) bool { return !lacksAny(by, t.Hook(), w) })
		}
		lane = writes{}
		of.lanes[t.lane()] = lane
	}
	lane.add(slices.Values(more))
	for index, all := range of.late {
		if of.isLate(by, t.Hook(), index) {
			all.add(slices.Values(more))
		}
	}
}

// isLate reports whether a binding has not caught up since a run has waited for it in vain.
func (of *hookWrites) isLate(by Writes, h *hook.Hook, index int) bool {
	if of.late[index] == nil {
		return false
	}
	_, shown := by.Processed(h, index, maps.Values(of.late[index]))
	if shown == nil {
		delete(of.late, index)
	}
	return shown != nil
}

func (o *ownWrites) forget(hook string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, hook)
}

// lacksAny reports whether a snapshot of the hook lacks one of the writes.
func lacksAny(by Writes, h *hook.Hook, w writes) bool {
	for index := range h.Kubernetes {
		if _, shown := by.Processed(h, index, maps.Values(w)); shown != nil {
			return true
		}
	}
	return false
}

// awaitWrites returns an error if the snapshots in the contexts of the task lack what an earlier run of its lane has written, and have not
// lacked it for too long.
func (r *Runner) awaitWrites(t *Task) error {
	m := t.extra
	r.own.mu.Lock()
	defer r.own.mu.Unlock()
	of := r.own.of[t.Hook().Name]
	if of == nil || of.lanes[t.lane()] == nil {
		return nil
	}
	lane := of.lanes[t.lane()]
	lacking := of.lacking(r.opts.Writes, t, lane)
	if len(lacking) == 0 {
		if !lacksAny(r.opts.Writes, t.Hook(), lane) {
			delete(of.lanes, t.lane())
		}
	} else if m.own == nil {
		m.own = &ownWait{since: time.Now()}
	}
	if m.own == nil {
		return nil
	}
	m.own.took = time.Since(m.own.since)
	if len(lacking) == 0 {
		return nil
	}
	if left := ownBound - m.own.took; left > 0 {
		return &unshownError{lacking[0].shown(), left}
	}
	for _, l := range lacking {
		all := writes{}
		for _, w := range of.lanes {
			all.add(maps.Values(w))
		}
		of.late[l.index] = all
		m.own.lacking = l.write.Stream + ": " + l.write.Namespace + "/" + l.write.Name
		r.opts.Log.Debug("The run begins although a snapshot lacks what an earlier one has written", append(t.LogFields(),
			"lacking", t.Hook().Kubernetes[l.index].Name, "resource", l.write.Stream, "namespace", l.write.Namespace, "name", l.write.Name)...)
	}
	if r.opts.WritesLate != nil {
		r.opts.WritesLate(t.Hook().Name)
	}
	return nil
}

// lacks is a binding whose snapshot lacks a change.
type lacks struct {
	index int
	write effect.Write
	shown func() <-chan struct{}
}

// lacking returns the bindings in the contexts of a task whose snapshots lack writes, but for those that are late.
func (of *hookWrites) lacking(by Writes, t *Task, w writes) (all []lacks) {
	h := t.Hook()
	for index := range t.shows() {
		if of.isLate(by, h, index) {
			continue
		}
		if write, shown := by.Processed(h, index, maps.Values(w)); shown != nil {
			all = append(all, lacks{index, write, shown})
		}
	}
	return all
}

// shows returns the kubernetes bindings whose objects the contexts of the task contain as they are at the start of its run.
func (t *Task) shows() map[int]bool {
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
