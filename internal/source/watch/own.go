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
	// over: too many changes wait. They no longer do.
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

// ownReason withholds a change, in the words of logs.
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

// ownPass withholds changes of a binding's objects by the operator and by the hook itself. A change that may be one waits for the request.
type ownPass struct {
	*monitor
	// changes are by object key. It has only objects with changes whose events are outstanding.
	changes map[string]*ownChanges
	// unseen are the generations of objects before changes of it by the hook that are no events, by object key.
	unseen map[string]string
}

func (p *ownPass) decide(c *Change) (reason string, deliver bool) {
	if c.before == nil {
		return "", true
	}
	own := p.changes[c.Object.Key]
	if own == nil || own.writing == 0 || own.over || len(own.waiting) == 0 && own.isOwn(*c) {
		return ownReason, !p.isOwn(own, *c)
	}
	if own.waiting = append(own.waiting, *c); len(own.waiting) > maxOwnWaiting {
		own.over = true
		p.fireWaiting(own)
	}
	return "", false
}

// isOwn reports whether a change is an own one. A new generation is an event if no condition reports it.
func (p *ownPass) isOwn(own *ownChanges, c Change) bool {
	is, before := own != nil && own.isOwn(c), c.before.Generation()
	switch {
	case c.Object.Generation() == before:
	case is && p.binding.SeesGenerations() && own.made[c.Object.ResourceVersion].unreported:
		is = false
		delete(p.unseen, c.Object.Key)
	case !is:
		delete(p.unseen, c.Object.Key)
	case p.unseen[c.Object.Key] == "":
		p.unseen[c.Object.Key] = before
	}
	return is
}

// stored is called for each version of an object. The hook does not see a change of another client that makes no other state for it.
func (p *ownPass) stored(before, now *stream.Object, changed bool) {
	if !changed && before.Generation() != now.Generation() {
		delete(p.unseen, now.Key)
	}
	if own := p.changes[now.Key]; own != nil && own.writing == 0 && own.settle(now.ResourceVersion) {
		delete(p.changes, now.Key)
	}
}

// removed fires the changes of a deleted object that wait.
func (p *ownPass) removed(key string) {
	if own := p.changes[key]; own != nil {
		p.fireWaiting(own)
	}
	delete(p.changes, key)
	delete(p.unseen, key)
}

// fireWaiting fires the changes that wait, but for our own ones.
func (p *ownPass) fireWaiting(own *ownChanges) {
	for _, c := range own.waiting {
		if p.isOwn(own, c) {
			p.withhold(c, ownReason)
		} else {
			p.ask(c, p.passes[1:])
		}
	}
	own.waiting = nil
}

// Follow returns the JSON of an object, if the binding keeps it and it is not known to be outdated, for a caller that is about to change
// it. The caller calls written when that is done, with the resource versions before and after its change, if there was one: the change is
// no event of the binding if nothing else lies between. Until then other changes of the object wait.
func (b *bindingSet) Follow(h *hook.Hook, index int, namespace, name string) (known []byte, written func(before, after string)) {
	m := b.monitor(h, index)
	if m == nil || m.own == nil {
		return nil, func(string, string) {}
	}
	last, _, written := m.own.follow(stream.KeyOf(namespace, name), true)
	if last != nil {
		known = last.JSON
	}
	return known, written
}

// Own is Follow for the bindings of a hook that ignore its own changes. Known is what one of them has, with our last change. Written is nil
// if there is no such binding. Reported returns whether the run sets the condition of the object for a binding.
func (b *bindingSet) Own(h *hook.Hook, group, resource, namespace, name string, reported func(index int) bool) (known effect.Known,
	written func(before, after string)) {
	var all []func(before, after string)
	for i := range h.Kubernetes {
		m := b.monitor(h, i)
		if m == nil || !m.binding.IgnoreOwn || !m.isOf(effect.Answered{Group: group, Resource: resource}) {
			continue
		}
		_, its, written := m.own.follow(stream.KeyOf(namespace, name), reported(i))
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
func (p *ownPass) follow(key string, reported bool) (last *stream.Object, known effect.Known, written func(before, after string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.changes[key]
	it, has := p.items.Get(key)
	if own == nil {
		own = &ownChanges{made: map[string]ownChange{}}
		if has {
			last, own.last = it.object, it.object.ResourceVersion
		}
		p.changes[key] = own
	}
	if known.Version = own.last; has && own.follows(it.object.ResourceVersion) && !own.awaitsOthers() {
		known.Generation, _ = strconv.ParseInt(cmp.Or(p.unseen[key], it.object.Generation()), 10, 64)
	}
	own.writing++
	return last, known, func(before, after string) {
		p.update(func() {
			if own.writing--; after != "" && after != before {
				own.made[after], own.last = ownChange{before, !reported}, after
			}
			if p.changes[key] != own {
				return // the object has been deleted
			}
			if own.writing > 0 {
				return
			}
			own.over = false
			p.fireWaiting(own)
			it, ok := p.items.Get(key)
			if !ok || own.settle(it.object.ResourceVersion) {
				delete(p.changes, key)
			}
		})
	}
}
