package watch

import (
	"maps"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// ownChanges are changes of an object by the operator, which are no events of the binding: it has set a condition after a run.
type ownChanges struct {
	// writing is the number of requests that have not been answered. Meanwhile changes wait: one of them may be our own.
	writing int
	waiting []waitingChange
	// made are the resource versions after our changes, and those before, whose events have not come.
	made map[string]string
}

// waitingChange is a change of an object that had this resource version before.
type waitingChange struct {
	entry
	before string
}

// isOwn reports whether nothing but our change lies between both versions.
func (c *ownChanges) isOwn(before, after string) bool { return c.made[after] == before && before != "" }

// settle forgets the changes up to a version.
func (c *ownChanges) settle(current string) (done bool) {
	maps.DeleteFunc(c.made, func(after, _ string) bool {
		return after == current || version(after) > 0 && version(after) <= version(current)
	})
	return c.writing == 0 && len(c.made) == 0
}

// modified fires Modified for a change, unless it is our own; one that may be is delayed. It requires mu.
func (m *monitor) modified(before string, e entry) {
	own := m.own[e.object.key]
	switch {
	case own == nil:
	case own.writing > 0:
		own.waiting = append(own.waiting, waitingChange{e, before})
		return
	case own.isOwn(before, e.object.resourceVersion):
		m.undelivered(event.Modified, e, "the operator has set its condition")
		return
	}
	m.fire(event.Modified, e)
}

// settleOwn is called for each version of an object. It requires mu.
func (m *monitor) settleOwn(o *object) {
	if own := m.own[o.key]; own != nil && own.writing == 0 && own.settle(o.resourceVersion) {
		delete(m.own, o.key)
	}
}

// fireWaiting fires the changes that wait, but for our own ones. It requires mu.
func (m *monitor) fireWaiting(own *ownChanges) {
	for _, w := range own.waiting {
		if own.isOwn(w.before, w.object.resourceVersion) {
			m.undelivered(event.Modified, w.entry, "the operator has set its condition")
			continue
		}
		m.fire(event.Modified, w.entry)
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
	key := objectKey(namespace, name)
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.own[key]
	if own == nil {
		own = &ownChanges{made: map[string]string{}}
		if it, ok := m.items.Get(key); ok {
			known = it.object.json
		}
		m.own[key] = own
	}
	own.writing++
	return known, func(before, after string) {
		m.update(func() {
			if own.writing--; after != "" && after != before {
				own.made[after] = before
			}
			if m.own[key] != own {
				return // the object has been deleted
			}
			if own.writing > 0 {
				return
			}
			m.fireWaiting(own)
			it, ok := m.items.Get(key)
			if !ok || own.settle(it.object.resourceVersion) {
				delete(m.own, key)
			}
		})
	}
}
