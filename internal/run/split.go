package run

import (
	"io"
	"slices"

	"github.com/shell-operator/shell-operator/internal/wire"
)

// writeContexts writes as many contexts of the task as fit, by MaxContextBytes, but at least one. The others are left to the next task of
// the lane.
func (r *Runner) writeContexts(a *Attempt, frames []wire.Context) error {
	t, f := a.Task, a.Files
	n := t.events.Len()
	if most := r.opts.MaxContextBytes; most > 0 && n > 1 && t.divisible() {
		n = a.fit(frames, most)
	}
	var heads []byte
	err := f.WriteContexts(func(w io.Writer) (err error) {
		contexts := a.contexts(frames, n)
		if !t.Hook().ShellLibrary {
			return wire.WriteContexts(w, t.Hook().Contexts, contexts)
		}
		heads, err = wire.WriteContextsAndHeads(w, t.Hook().Contexts, contexts)
		return err
	})
	if heads != nil {
		f.WriteHeads(heads)
	}
	if left := t.events.Len() - n; left > 0 {
		t.split(n)
		a.Log.Info("Not all binding contexts fit into one run, the others are left to the next one", "contexts", n, "left", left)
	}
	return err
}

// divisible reports whether several runs may deliver the events: a Synchronization is one context.
func (t *Task) divisible() bool { return !t.synchronizes() && t.readExtra().review == nil }

// fit returns how many contexts, at least one, have no more bytes than most in a file.
func (a *Attempt) fit(frames []wire.Context, most int) (n int) {
	h := a.Hook
	snapshots := make([]int, len(frames)) // each context of a binding has the same
	for i, frame := range frames {
		if len(frame.Snapshots) > 0 {
			bare := frame
			bare.Snapshots = nil
			snapshots[i] = wire.ContextSize(h.Contexts, frame) - wire.ContextSize(h.Contexts, bare)
		}
	}
	size := len("[]\n")
	for c := range a.contexts(frames, a.Task.Len()) {
		c.Snapshots = nil
		more := wire.ContextSize(h.Contexts, c) + snapshots[frameOf(frames, &c.Event)]
		if n > 0 {
			more += len(",")
		}
		if n > 0 && size+more > most {
			break
		}
		n, size = n+1, size+more
	}
	return n
}

// split leaves all events but the first n to a task of its own.
func (t *Task) split(n int) {
	m := t.ensureExtra()
	rest := &Task{runner: t.runner, id: t.runner.lastID.Add(1), events: t.events.Split(n)}
	rest.first = addressOf(rest.events.First(t.Hook()))
	for ev := range rest.Events() {
		rest.first.initial = rest.first.initial && ev.Initial
	}
	ids := append([]int64{t.id}, m.merged.ids...)
	rest.extra = &extra{
		traits: m.traits&(retried|refreshed) | urgent, queue: m.queue, keyValue: m.keyValue, marks: slices.Clone(m.marks),
		merged: merged{ids: ids[:min(len(ids), maxIDs)]},
	}
	m.most, m.rest = n, rest
}

// Rest returns, once, the task of the events that the last run has left; nil if there are none.
func (t *Task) Rest() *Task {
	if t.extra == nil {
		return nil
	}
	rest := t.extra.rest
	t.extra.rest = nil
	return rest
}

// Replace takes the last event of the object of the task's event out of a waiting task, if both are Modified events and the task is to
// replace them. Empty reports that no event is left there, done that others need not be searched.
func (t *Task) Replace(waiting *Task) (empty, done bool) {
	switch {
	case !t.is(replaces):
		return false, true
	case waiting.Hook() != t.Hook():
		return false, false
	}
	ev := t.events.First(t.Hook())
	dropped, found := waiting.events.DropModified(&ev)
	if !dropped {
		return false, found
	}
	t.runner.opts.Deferred.Replaced(&ev)
	return waiting.events.Len() == 0, true
}
