package watch

import (
	"context"
	"log/slog"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// A Guard is in front of the objects of a binding: it decides which states of objects the binding gets, and takes part in what becomes of
// their changes. Its methods are called with mu of the monitor held, and do not block.
type Guard interface {
	Admission
	Phases
	Waiting
}

// Admission decides about states of objects and their changes, with order held, too.
type Admission interface {
	// Outdated reports whether a state of an object is older than the binding has to get it: the object stays as it is.
	Outdated(o *stream.Object) bool
	// Admit returns false for a state of an object that the binding does not get. It keeps the last state, if it has the object.
	Admit(from *stream.Subscription, o *stream.Object, has bool) bool
	// Withdraw receives which objects the binding no longer selects, of those that were not admitted.
	Withdraw(gone func(key string, from *stream.Subscription) bool)
	// Decide is the pass of the guard. An event for which it returns another type has the uid of the object.
	Decide(change event.Watch, o *stream.Object) (as event.Watch, reason string, deliver bool)
	// Removed decides whether the removal of an object is a change for the passes; before is its last state in the binding. Otherwise it
	// returns the reason, or "" if it fires the change itself or later.
	Removed(before *stream.Object, last stream.Digested) (reason string, deliver bool)
}

// Phases receive the phases of a binding.
type Phases interface {
	Unlocked()
	Muted()
	// Ended returns a channel that is closed when no request is in flight; nil without requests.
	Ended() (idle <-chan struct{})
}

// Waiting shows which objects wait for their admission, and which have the mark of the guard.
type Waiting interface {
	// Lags reports whether an object waits that some subscription delivered up to a version, Lacks whether an object does.
	Lags(version uint64, by func(*stream.Subscription) bool) bool
	Lacks(key string) bool
	// Marks reports whether an object has the mark. It is called without locks.
	Marks(o *stream.Object) bool
	// Troubles are the reasons for which objects wait, or keep the mark.
	Troubles() []string
}

// Settler is a Guard in a Simulation. Settle sends the requests that are due; it is called without locks.
type Settler interface{ Settle(ctx context.Context) }

// guardPass is the Guard as a pass.
type guardPass struct{ Guard }

func (p guardPass) decide(c *Change) (reason string, deliver bool) {
	as, reason, deliver := p.Decide(c.watch, c.Object)
	c.identified = c.identified || as != c.watch
	c.watch = as
	return reason, deliver
}

// guards reports whether the guard decides about an object, which is up to the shard of the object. It requires mu.
func (m *monitor) guards(o *stream.Object) bool { return m.guard != nil && m.division.events().Has(o) }

// Shelf is a binding as its Guard sees and changes it. Update calls a function with order and mu held, and then delivers the events; Look
// calls one with mu held. The methods below Look may be called by such a function only.
type Shelf struct {
	m     *monitor
	spawn func(func(context.Context)) bool
}

// Of returns the hook of the binding, and its index.
func (s *Shelf) Of() (h *hook.Hook, index int) { return s.m.hook, s.m.index }

// Go runs f until it returns, as a part of the watcher. It returns false if that has ended.
func (s *Shelf) Go(f func(context.Context)) bool { return s.spawn(f) }

// Read makes an entry of the object in an answer of the API server.
func (s *Shelf) Read(ctx context.Context, text []byte) (stream.Digested, error) {
	o, err := stream.Read(text, s.m.keepManagedFields)
	if err != nil {
		return stream.Digested{}, err
	}
	r := s.m.Filter(ctx, o, jq.NewObject(o.JSON, jq.NeedOf(s.m.filters...)))
	if !r.Done {
		return stream.Digested{}, ctx.Err()
	}
	return stream.Digested{Object: o, Filtered: r.Filtered, Key: r.Key}, nil
}

func (s *Shelf) Update(change func()) { s.m.update(change) }
func (s *Shelf) Look(do func())       { s.m.locked(do) }

// Log writes a record when mu is released.
func (s *Shelf) Log(level slog.Level, message string, args ...any) {
	s.m.logLater(level, message, args...)
}

// Open reports whether events are delivered, Muted whether they are no longer.
func (s *Shelf) Open() bool  { return s.m.phase == open }
func (s *Shelf) Muted() bool { return s.m.phase >= muted }

// Halt ends the events of the binding for good.
func (s *Shelf) Halt() { s.m.held, s.m.phase = event.Log{}, max(s.m.phase, halted) }

func (s *Shelf) Resource() kube.Resource { return s.m.resource }

// Owns reports whether an object belongs to the shard of this replica.
func (s *Shelf) Owns(o *stream.Object) bool { return s.m.division.own.Has(o) }

// Get returns an object of the binding.
func (s *Shelf) Get(key string) (e stream.Digested, ok bool) {
	it, ok := s.m.items.Get(key)
	if !ok {
		return e, false
	}
	return s.m.digested(it), true
}

// Passed reports whether all watches of the binding have come up to a version.
func (s *Shelf) Passed(version uint64) bool {
	for sub, from := range s.m.subs {
		if sub.Consumer == stream.Consumer(s.m) && !from.awaited && from.applied < version {
			return false
		}
	}
	return true
}

// Each calls do for each object that the guard decides about.
func (s *Shelf) Each(do func(e stream.Digested, from *stream.Subscription)) {
	s.m.items.Scan(func(_ string, it item) bool {
		if s.m.guards(it.object) {
			do(s.m.digested(it), it.from)
		}
		return true
	})
}

// Forget drops an object as if the binding never had it.
func (s *Shelf) Forget(key string) {
	s.m.items.Delete(key)
	delete(s.m.keys, key)
}

// Fire asks the passes about a change. Identified: its event has the uid of the object.
func (s *Shelf) Fire(change event.Watch, e stream.Digested, identified bool) {
	s.m.fire(Change{watch: change, Digested: e, identified: identified})
}
