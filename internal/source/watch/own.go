package watch

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// ownChanges are changes of an object by the operator, which are no events of the binding: it has set a condition after a run.
type ownChanges struct {
	// writing is the number of requests that have not been answered. Meanwhile changes wait: one of them may be our own.
	writing int
	waiting []Change
	// over: too many changes wait. They do not wait any more.
	over bool
	// last is the version after our last change.
	last string
	// made are our changes, whose events have not come, by the resource version after them.
	made map[string]ownChange
}

// ownChange is a change of an object that had this resource version before. Unreported: the run sets no condition of the object.
type ownChange struct {
	before     string
	unreported bool
}

// maxOwnWaiting bounds the changes of an object that wait for requests, which have a time limit.
const maxOwnWaiting = 100

// ownReason is why a change is no event.
const ownReason = "it is a condition that the operator has set, or a change by the hook itself, whose binding has ownChanges: ignore"

// isOwn reports whether nothing but our change lies between both states of a change.
func (c *ownChanges) isOwn(of Change) bool {
	before := of.before.ResourceVersion
	return c.made[of.Object.ResourceVersion].before == before && before != ""
}

// follows reports whether nothing but our changes lies between a version and the last one of them.
func (c *ownChanges) follows(version string) bool {
	at := c.last
	for range c.made { // versions that an API server which was set back gives again may lead in a circle
		if before := c.made[at].before; at != version && before != "" {
			at = before
		}
	}
	return at == version
}

// awaitsOthers reports whether a change waits that is not known to be our own.
func (c *ownChanges) awaitsOthers() bool {
	return slices.ContainsFunc(c.waiting, func(w Change) bool { return !c.isOwn(w) })
}

// settle forgets the changes up to a version.
func (c *ownChanges) settle(current string) (done bool) {
	maps.DeleteFunc(c.made, func(after string, _ ownChange) bool {
		return after == current || stream.ParseVersion(after) > 0 && stream.ParseVersion(after) <= stream.ParseVersion(current)
	})
	return c.writing == 0 && len(c.made) == 0
}

// modified fires Modified for a change, unless it is our own; one that may be is delayed. It requires mu.
func (m *monitor) modified(c Change) {
	own := m.own[c.Object.Key]
	if own == nil || own.writing == 0 || own.over || len(own.waiting) == 0 && own.isOwn(c) {
		m.decide(own, c)
		return
	}
	if own.waiting = append(own.waiting, c); len(own.waiting) > maxOwnWaiting {
		own.over = true
		m.fireWaiting(own)
	}
}

// decide fires Modified for a change, unless it is our own. A new generation is an event if no condition reports it. It requires mu.
func (m *monitor) decide(own *ownChanges, w Change) {
	isOwn, before := own != nil && own.isOwn(w), w.before.Generation()
	switch {
	case w.Object.Generation() == before:
	case isOwn && m.binding.Condition != "" && own.made[w.Object.ResourceVersion].unreported:
		isOwn = false
		delete(m.unseen, w.Object.Key)
	case !isOwn:
		delete(m.unseen, w.Object.Key)
	case m.unseen[w.Object.Key] == "":
		m.unseen[w.Object.Key] = before
	}
	if isOwn {
		m.withhold(w, ownReason)
		return
	}
	m.fire(w)
}

// settleOwn is called for each version of an object. It requires mu.
func (m *monitor) settleOwn(o *stream.Object) {
	if own := m.own[o.Key]; own != nil && own.writing == 0 && own.settle(o.ResourceVersion) {
		delete(m.own, o.Key)
	}
}

// fireWaiting fires the changes that wait, but for our own ones. It requires mu.
func (m *monitor) fireWaiting(own *ownChanges) {
	for _, w := range own.waiting {
		m.decide(own, w)
	}
	own.waiting = nil
}

// Follow returns the JSON of an object, if the binding keeps it and it is not known to be outdated, for a caller that is about to change
// it. The caller calls written when that is done, with the resource versions before and after its change, if there was one: the change is
// no event of the binding if nothing else lies between. Until then other changes of the object wait.
func (b *bindingSet) Follow(h *hook.Hook, index int, namespace, name string) (known []byte, written func(before, after string)) {
	m := b.monitor(h, index)
	if m == nil {
		return nil, func(string, string) {}
	}
	last, _, written := m.follow(stream.KeyOf(namespace, name), true)
	if last != nil {
		known = last.JSON
	}
	return known, written
}

// Own is Follow for the bindings of a hook that ignore its own changes. Known is what one of them has, with our last change. Written is nil
// if there is no such binding. Reported: the run sets the condition of the object.
func (b *bindingSet) Own(h *hook.Hook, group, resource, namespace, name string, reported bool) (known effect.Known,
	written func(before, after string)) {
	var all []func(before, after string)
	for i := range h.Kubernetes {
		m := b.monitor(h, i)
		if m == nil || !h.Kubernetes[i].IgnoreOwn || !m.isOf(effect.Answered{Group: group, Resource: resource}) {
			continue
		}
		_, its, written := m.follow(stream.KeyOf(namespace, name), reported)
		known, all = cmp.Or(its, known), append(all, written)
	}
	if all == nil {
		return known, nil
	}
	return known, func(before, after string) {
		for _, written := range all {
			written(before, after)
		}
	}
}

// follow makes changes of an object wait until written is called. It returns the object, unless earlier changes are outstanding, and what
// is known of it.
func (m *monitor) follow(key string, reported bool) (last *stream.Object, known effect.Known, written func(before, after string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.own[key]
	it, has := m.items.Get(key)
	if own == nil {
		own = &ownChanges{made: map[string]ownChange{}}
		if has {
			last, own.last = it.object, it.object.ResourceVersion
		}
		m.own[key] = own
	}
	if known.Version = own.last; has && own.follows(it.object.ResourceVersion) && !own.awaitsOthers() {
		known.Generation, _ = strconv.ParseInt(cmp.Or(m.unseen[key], it.object.Generation()), 10, 64)
	}
	own.writing++
	return last, known, func(before, after string) {
		m.update(func() {
			if own.writing--; after != "" && after != before {
				own.made[after], own.last = ownChange{before, !reported}, after
			}
			if m.own[key] != own {
				return // the object has been deleted
			}
			if own.writing > 0 {
				return
			}
			own.over = false
			m.fireWaiting(own)
			it, ok := m.items.Get(key)
			if !ok || own.settle(it.object.ResourceVersion) {
				delete(m.own, key)
			}
		})
	}
}
