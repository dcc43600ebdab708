package watch

import (
	"github.com/tidwall/btree"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// view has the objects of a binding. It is a value without a lock: it compares states of objects, and knows no options of the binding.
type view struct {
	// items is ordered by object key. Copies are cheap and are read without the lock.
	items btree.Map[string, item]
	// keys are the results of the queue's jq key, by object key.
	keys    map[string]string
	changes Changes
}

// item is an object of a binding and the subscription that delivered it.
type item struct {
	object   *stream.Object
	filtered []byte
	from     *stream.Subscription
}

// Change is a change of an object of a binding.
type Change struct {
	watch event.Watch
	// Digested is the state after the change, or the last one of a deleted object.
	stream.Digested
	// before is the state before Modified.
	before *stream.Object
	// initial: the binding announces the objects of its initial list.
	initial bool
	// identified: the event has the uid of the object.
	identified bool
	// withheld is the reason why the change is no event.
	withheld string
}

// Changes counts changes of a binding's objects. Objects of the initial list count as added.
type Changes struct{ Added, Modified, Deleted int }

func (c Changes) minus(d Changes) Changes {
	return Changes{c.Added - d.Added, c.Modified - d.Modified, c.Deleted - d.Deleted}
}

// digested returns the state of an item.
func (v *view) digested(it item) stream.Digested {
	return stream.Digested{Object: it.object, Filtered: it.filtered, Key: v.keys[it.object.Key]}
}

// set stores an object with its jq key, and returns its change; false if same reports that the stored state of the object is equal. An
// object with another uid has to be removed before.
func (v *view) set(now item, key string, same func(before, now item) bool) (c Change, changed bool) {
	before, had := v.items.Get(now.object.Key)
	if delete(v.keys, now.object.Key); key != "" {
		if v.keys == nil {
			v.keys = map[string]string{}
		}
		v.keys[now.object.Key] = key
	}
	c = Change{watch: event.Modified, Digested: v.digested(now), before: before.object}
	switch {
	case !had:
		c.watch = event.Added
		v.changes.Added++
		v.items.Load(now.object.Key, now) // Set, but faster for keys in order
		return c, true
	case !same(before, now):
		v.changes.Modified++
		v.items.Set(now.object.Key, now)
		return c, true
	case isFailure(now.filtered) == isFailure(before.filtered):
		now.filtered = before.filtered // saves a copy
	}
	v.items.Set(now.object.Key, now)
	return c, false
}

// remove drops an item and returns the change; last is the object's last known state.
func (v *view) remove(it item, last *stream.Object) Change {
	e := v.digested(it)
	e.Object = last
	v.items.Delete(it.object.Key)
	delete(v.keys, it.object.Key)
	v.changes.Deleted++
	return Change{watch: event.Deleted, Digested: e}
}
