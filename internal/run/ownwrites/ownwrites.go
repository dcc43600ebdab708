// Package ownwrites makes runs wait until the snapshots of their contexts contain what earlier runs of their lane have written.
//
// Callers may rely on this:
//   - A run waits no longer than 5 s. The next runs do not wait for a binding for which one has waited in vain, until it has caught up.
//   - Changes by runs that answer requests are not waited for: they have no lane.
//   - A hook without kubernetes bindings, and one whose runs have written nothing, waits for nothing.
package ownwrites

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
)

// Bindings compare their snapshots with changes by runs.
type Bindings interface {
	// Delivers returns what the bindings of a hook will show of a change by one of its runs, by stream of objects;
	// nothing if they select other objects.
	Delivers(h *hook.Hook, a effect.Answered) []effect.Write
	// Processed returns a change that the snapshots of a binding lack, and a function for a channel that is closed when they lack none of
	// them, or cannot be expected to show them; nil if that is so now.
	Processed(h *hook.Hook, index int, writes iter.Seq[effect.Write]) (lacking effect.Write, shown func() <-chan struct{})
	// Own prepares a request of a run, as effect.Owned, for the bindings that ignore changes by the hook. Reported returns whether the run
	// sets the condition of the object for a binding.
	Own(h *hook.Hook, group, resource, namespace, name string, reported func(index int) bool) (known effect.Known,
		written func(before, after string))
}

const (
	// bound limits the wait of a run.
	bound = 5 * time.Second
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

// Writes is the Companion that keeps the changes by runs until the snapshots show them.
type Writes struct {
	by   Bindings
	late func(hook string)
	log  *slog.Logger

	mu sync.Mutex
	// of has the writes by the name of the hook: a reload keeps them.
	of map[string]*hookWrites
}

var _ run.Forgetter = (*Writes)(nil)

// New returns Writes. Late receives the hook of a run that has waited in vain.
func New(by Bindings, late func(hook string), log *slog.Logger) *Writes {
	return &Writes{by: by, late: late, log: log, of: map[string]*hookWrites{}}
}

// hookWrites are the changes by the runs of one hook.
type hookWrites struct {
	lanes map[lane]writes
	// waits has the wait of the first task of each lane.
	waits map[lane]*wait
	// late are the bindings, by index, for which a run has waited in vain, with all writes since. No run waits for them until they show these.
	late map[int]writes
}

// lane identifies the lane of a task.
type lane struct{ queue, key string }

func laneOf(t *run.Task) lane { return lane{t.Queue(), t.Key()} }

// wait is the wait of a task for what earlier runs of its lane have written.
type wait struct {
	task  *run.Task
	since time.Time
	took  time.Duration
	// lacking names a change that the snapshots lack after the bound.
	lacking string
}

// unshownError keeps a run from its begin: snapshots of its contexts lack what an earlier one has written.
type unshownError struct {
	shown <-chan struct{}
	left  time.Duration
}

func (e *unshownError) Error() string { return "the snapshots lack what an earlier run has written" }

// Until implements queue.Blocked.
func (e *unshownError) Until() (signal <-chan struct{}, most time.Duration) { return e.shown, e.left }

// Joins implements run.Companion. Snapshots of other hooks lack nothing.
func (o *Writes) Joins(h *hook.Hook, answers bool) bool {
	return slices.ContainsFunc(h.Kubernetes, func(k hook.Kubernetes) bool { return !answers || k.IgnoreOwn })
}

// Begin makes the requests of a run with the context noted for later runs of its lane.
func (o *Writes) Begin(ctx context.Context, a *run.Attempt) context.Context {
	t := a.Task
	if slices.ContainsFunc(a.Hook.Kubernetes, func(k hook.Kubernetes) bool { return k.IgnoreOwn }) {
		ctx = effect.WithOwned(ctx, func(group, resource, namespace, name string) (effect.Known, func(before, after string)) {
			return o.by.Own(a.Hook, group, resource, namespace, name, func(index int) bool { return t.Reports(index, namespace, name) })
		})
	}
	if t.Answers() {
		return ctx
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if of := o.of[a.Hook.Name]; of != nil {
		if w := of.waits[laneOf(t)]; w != nil && w.task == t {
			a.OwnWrites, a.Lacking = w.took, w.lacking
		}
		delete(of.waits, laneOf(t))
	}
	return effect.WithAnswers(ctx, func(answer effect.Answered) {
		if more := o.by.Delivers(a.Hook, answer); len(more) > 0 {
			o.note(t, more)
		}
	})
}

func (o *Writes) note(t *run.Task, more []effect.Write) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.of[t.Hook().Name]
	if of == nil {
		of = &hookWrites{lanes: map[lane]writes{}, waits: map[lane]*wait{}, late: map[int]writes{}}
		o.of[t.Hook().Name] = of
	}
	own := of.lanes[laneOf(t)]
	if own == nil {
		if n := len(of.lanes); n > 0 && n%sweepEvery == 0 {
			maps.DeleteFunc(of.lanes, func(_ lane, w writes) bool { return !lacksAny(o.by, t.Hook(), w) })
		}
		own = writes{}
		of.lanes[laneOf(t)] = own
	}
	own.add(slices.Values(more))
	for index, all := range of.late {
		if of.isLate(o.by, t.Hook(), index) {
			all.add(slices.Values(more))
		}
	}
}

// isLate reports whether a binding has not caught up since a run has waited for it in vain.
func (of *hookWrites) isLate(by Bindings, h *hook.Hook, index int) bool {
	if of.late[index] == nil {
		return false
	}
	_, shown := by.Processed(h, index, maps.Values(of.late[index]))
	if shown == nil {
		delete(of.late, index)
	}
	return shown != nil
}

// Forget implements run.Forgetter.
func (o *Writes) Forget(hook string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, hook)
}

// lacksAny reports whether a snapshot of the hook lacks one of the writes.
func lacksAny(by Bindings, h *hook.Hook, w writes) bool {
	for index := range h.Kubernetes {
		if _, shown := by.Processed(h, index, maps.Values(w)); shown != nil {
			return true
		}
	}
	return false
}

// Await returns an error if the snapshots in the contexts of the task lack what an earlier run of its lane has written, and have not
// lacked it for too long.
func (o *Writes) Await(t *run.Task) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	of, at := o.of[t.Hook().Name], lane{}
	if of != nil {
		at = laneOf(t)
	}
	if of == nil || of.lanes[at] == nil {
		return nil
	}
	lacking := of.lacking(o.by, t, of.lanes[at])
	if len(lacking) == 0 && !lacksAny(o.by, t.Hook(), of.lanes[at]) {
		delete(of.lanes, at)
	}
	w := of.waits[at]
	switch known := w != nil && w.task == t; {
	case known:
		w.took = time.Since(w.since)
	case len(lacking) > 0:
		w = &wait{task: t, since: time.Now()}
		of.waits[at] = w
	}
	if len(lacking) == 0 {
		return nil
	}
	if left := bound - w.took; left > 0 {
		return &unshownError{lacking[0].shown(), left}
	}
	of.giveUp(lacking, w, o.log)
	o.late(t.Hook().Name)
	return nil
}

// giveUp lets a task run that has waited for too long, and no other task wait for the bindings that are late.
func (of *hookWrites) giveUp(lacking []lacks, w *wait, log *slog.Logger) {
	for _, l := range lacking {
		all := writes{}
		for _, own := range of.lanes {
			all.add(maps.Values(own))
		}
		of.late[l.index] = all
		w.lacking = l.write.Stream + ": " + l.write.Namespace + "/" + l.write.Name
		log.Debug("The run begins although a snapshot lacks what an earlier one has written", append(w.task.LogFields(),
			"lacking", w.task.Hook().Kubernetes[l.index].Name, "resource", l.write.Stream, "namespace", l.write.Namespace,
			"name", l.write.Name)...)
	}
}

// lacks is a binding whose snapshot lacks a change.
type lacks struct {
	index int
	write effect.Write
	shown func() <-chan struct{}
}

// lacking returns the bindings in the contexts of a task whose snapshots lack writes, but for those that are late.
func (of *hookWrites) lacking(by Bindings, t *run.Task, w writes) (all []lacks) {
	h := t.Hook()
	for index := range t.Shows() {
		if of.isLate(by, h, index) {
			continue
		}
		if write, shown := by.Processed(h, index, maps.Values(w)); shown != nil {
			all = append(all, lacks{index, write, shown})
		}
	}
	return all
}
