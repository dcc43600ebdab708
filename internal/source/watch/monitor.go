package watch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/source/installed"
	"github.com/shell-operator/shell-operator/internal/source/stream"
	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// phase is how far a monitor is.
//
//	filling → locked → open → muted → halted → ended
//
// The last three may follow any other one.
type phase int

const (
	// filling: the initial list is not complete, there are no events.
	filling phase = iota
	// locked: events are held until the Synchronization has succeeded; the snapshot for it replaces those held so far.
	locked
	// open: events are delivered.
	open
	// muted: events are no longer delivered, snapshots stay current.
	muted
	// halted: as muted, but Enable does not replace the binding.
	halted
	// ended: the binding has been disabled.
	ended
)

// monitor has the objects of one kubernetes binding and decides whether their changes are events.
type monitor struct {
	filtering
	// stuck reports why the initial list is not complete.
	stuck func(error)
	// keepManagedFields: objects have their managedFields.
	keepManagedFields bool

	sink Sink
	// excluded, if set, receives why a change is no event.
	excluded func(reason string)
	// filled is closed when the initial list is complete.
	filled chan struct{}

	// life ends when the binding is disabled. doubted, of capacity 1, receives that the kind of an optional binding may have gone, or come;
	// wrote: the operator has changed an object of it.
	life    context.Context
	stop    context.CancelFunc
	doubted chan struct{}
	wrote   atomic.Bool

	// order serializes changes of the set together with the events that they make. It is locked before mu, and held while the sink stores
	// an event: a slow disk must not delay snapshots.
	order sync.Mutex
	// fired are the changes of the update that is being made, quiet is true for an initial list. order guards them.
	fired []Change
	quiet bool
	// gone are the objects that the change removes. order guards them, too.
	gone []*stream.Object

	mu sync.Mutex
	view
	// executed are the changes at the last run of the hook.
	executed Changes
	// absent are namespaces of the binding that did not exist when it was enabled.
	absent []string
	passes []pass
	// own, standby and guard are nil for a binding without own changes, standbys or a guard.
	own     *ownPass
	standby *standbyPass
	guard   Guard
	// resource is the resource of the binding's kind.
	resource kube.Resource
	// shard is the shard of this replica, division the part of the binding's objects that it has.
	shard    shard.Shard
	division division
	// awaited is the number of subscriptions that have not delivered a list.
	awaited int
	phase   phase
	// held are the events since the last snapshot for a Synchronization, until the phase is open.
	held event.Log
	// subs are the subscriptions whose deliveries count.
	subs   sources
	writes *writes

	// records are written to the log when mu is released: a log that blocks must not hold up snapshots.
	records []func()
}

var _ stream.Consumer = (*monitor)(nil)

func newMonitor(h *hook.Hook, index int, sink Sink, meter Meter, log *slog.Logger) *monitor {
	life, stop := context.WithCancel(context.Background())
	m := &monitor{
		life: life, stop: stop, doubted: make(chan struct{}, 1),
		filtering: filtering{
			address: address{h, index}, binding: &h.Kubernetes[index], meter: meter, log: log, filterErrors: logonce.Dedup{Every: time.Minute},
		},
		stuck: func(error) {}, sink: sink, filled: make(chan struct{}), subs: sources{},
	}
	m.writes = &writes{monitor: m}
	m.arrange(false, false)
	return m
}

func (m *monitor) Needs() stream.Needs {
	return stream.Needs{JSON: m.binding.KeepFullObjects, Lifetime: m.guard != nil || m.own != nil, Filters: m.filters}
}

// Held finds objects of the binding by key, uid and version.
func (m *monitor) Held() func(key, uid, version string) *stream.Object {
	if !m.binding.KeepFullObjects {
		return nil
	}
	m.mu.Lock()
	items := m.items.Copy()
	m.mu.Unlock()
	return func(key, uid, version string) *stream.Object {
		if it, ok := items.Get(key); ok && it.object.UID == uid && it.object.ResourceVersion == version {
			return it.object
		}
		return nil
	}
}

// expect awaits a list of sub. It returns false if the binding was disabled, or the parent of s abandoned.
func (m *monitor) expect(sub *stream.Subscription, s source) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == ended || s.parent != nil && m.subs[s.parent] == nil {
		return false
	}
	s.selection, s.awaited = sub.Scope.Selection(), true
	s.failing, s.written = map[string]failure{}, map[string]lastWrite{}
	m.subs[sub] = &s
	m.awaited++
	return true
}

// watches reports whether the binding has streams of its kind.
func (m *monitor) watches() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for sub := range m.subs {
		if sub.Consumer == stream.Consumer(m) {
			return true
		}
	}
	return false
}

// arrived records that sub has delivered a list, or is not waited for. It requires mu.
func (m *monitor) arrived(sub *stream.Subscription) {
	s := m.subs[sub]
	if s == nil || !s.awaited {
		return
	}
	s.awaited = false
	if m.awaited--; m.awaited == 0 {
		m.complete()
	}
}

// complete records that all lists have been delivered. It requires mu.
func (m *monitor) complete() {
	if m.phase == filling {
		m.phase = locked
		close(m.filled)
	}
}

// update changes the objects under mu, and delivers the events after it has released mu.
func (m *monitor) update(change func()) {
	m.order.Lock()
	defer m.order.Unlock()
	n, held := 0, event.Log{}
	m.locked(func() {
		change()
		n = m.items.Len()
		if m.phase == open {
			held, m.held = m.held, held
		}
	})
	m.sink.Objects(m.hook, m.index, n)
	for _, o := range m.gone {
		m.sink.Gone(m.hook, m.index, event.Object{Namespace: o.Namespace, Name: o.Name, Kind: o.Kind})
	}
	m.gone = nil
	for ev := range held.All(m.hook) {
		if m.at() >= muted {
			break
		}
		m.sink.Event(ev)
	}
	for _, c := range m.fired {
		m.send(c)
	}
	m.fired, m.quiet = nil, false
}

// locked calls do with mu held, and then writes the records of logLater.
func (m *monitor) locked(do func()) {
	m.mu.Lock()
	do()
	m.writes.settle()
	records := m.records
	m.records = nil
	m.mu.Unlock()
	for _, write := range records {
		write()
	}
}

// logLater writes a record when mu is released. Only do of locked may call it.
func (m *monitor) logLater(level slog.Level, message string, args ...any) {
	m.records = append(m.records, func() { m.log.Log(context.Background(), level, message, args...) })
}

func (m *monitor) Replace(sub *stream.Subscription, entries []stream.Digested) {
	slices.SortFunc(entries, func(a, b stream.Digested) int { return cmp.Compare(a.Object.Key, b.Object.Key) })
	m.update(func() {
		if m.subs[sub] == nil {
			return
		}
		m.quiet = m.phase == filling
		if m.items.Len() > 0 || m.guard != nil {
			present := make(map[string]bool, len(entries))
			for _, e := range entries {
				present[e.Object.Key] = true
			}
			m.dropAll(func(key string, it item) bool { return it.from == sub && !present[key] })
			m.withdraw(func(key string, from *stream.Subscription) bool { return from == sub && !present[key] })
		}
		for _, e := range entries {
			m.put(sub, e)
		}
		m.arrived(sub)
	})
}

func (m *monitor) Change(sub *stream.Subscription, e stream.Digested) {
	defer m.handled(time.Now())
	m.update(func() {
		if m.subs[sub] != nil {
			m.put(sub, e)
		}
	})
}

func (m *monitor) handled(since time.Time) {
	m.meter.Handled(m.hook, m.index, time.Since(since))
}

func (m *monitor) Remove(sub *stream.Subscription, o *stream.Object) {
	defer m.handled(time.Now())
	m.update(func() {
		if m.subs[sub] == nil {
			return
		}
		m.withdraw(func(key string, _ *stream.Subscription) bool { return key == o.Key })
		if it, ok := m.items.Get(o.Key); ok {
			// The filter is not applied: the hook has the last result.
			m.drop(it, o)
		}
	})
}

// abandon drops sub, its descendants and all their objects; the hook receives Deleted for them.
func (m *monitor) abandon(sub *stream.Subscription) (left map[*stream.Subscription]bool) {
	m.update(func() {
		left = m.subs.descendants(sub)
		m.dropAll(func(_ string, it item) bool { return left[it.from] })
		m.withdraw(func(_ string, from *stream.Subscription) bool { return left[from] })
		for other := range left {
			m.arrived(other)
			delete(m.subs, other)
		}
	})
	return left
}

// withdraw notifies the guard of objects that are no longer selected. It requires mu.
func (m *monitor) withdraw(gone func(key string, from *stream.Subscription) bool) {
	if m.guard != nil {
		m.guard.Withdraw(gone)
	}
}

func (m *monitor) dropAll(which func(key string, it item) bool) {
	var gone []item
	m.items.Scan(func(key string, it item) bool {
		if which(key, it) {
			gone = append(gone, it)
		}
		return true
	})
	for _, it := range gone {
		m.drop(it, it.object)
	}
}

// put stores an entry and fires the event that follows from the comparison with the stored one.
func (m *monitor) put(sub *stream.Subscription, e stream.Digested) {
	old, had := m.items.Get(e.Object.Key)
	guarded := m.guards(e.Object)
	outdated := guarded && m.guard.Outdated(e.Object)
	if had && old.object.UID != e.Object.UID {
		if had = false; !outdated { // deleted and created again, and the watch has missed that
			m.drop(old, old.object)
		}
	}
	if outdated || guarded && !m.guard.Admit(sub, e.Object, had) {
		if had && old.from != sub {
			old.from = sub
			m.items.Set(e.Object.Key, old)
		}
		return
	}
	switch {
	case had && old.object.ResourceVersion == e.Object.ResourceVersion &&
		!(sub.Recast && old.object.JSON != nil && !bytes.Equal(old.object.JSON, e.Object.JSON)):
		e.Object = old.object // other bindings share its bytes
	case !m.binding.KeepFullObjects && e.Object.JSON != nil:
		slim := *e.Object // or the bytes would stay when the binding that needs them is disabled
		slim.JSON = nil
		e.Object = &slim
	}
	c, changed := m.set(item{object: e.Object, filtered: e.Filtered, from: sub}, e.Key, m.same)
	switch {
	case !changed:
		if m.program != nil {
			m.withhold(c, "the result of jqFilter is the same")
		}
	default:
		m.fire(c)
	}
	if m.own != nil {
		m.own.stored(old.object, e.Object, changed)
	}
}

// same reports whether two states are one for the hook.
func (m *monitor) same(a, b item) bool {
	switch now := b.object; {
	case m.program == nil:
		return a.object.ResourceVersion == now.ResourceVersion && (a.object == now || !b.from.Recast)
	case !bytes.Equal(a.filtered, b.filtered) || m.guard != nil && a.object.Terminating() != now.Terminating():
		return false
	default:
		return !m.binding.SeesGenerations() || now.Terminating() || a.object.Generation() == now.Generation()
	}
}

// drop removes an item; last is the object's last known state.
func (m *monitor) drop(it item, last *stream.Object) {
	c := m.remove(it, last)
	if m.own != nil {
		m.own.removed(it.object.Key)
	}
	m.gone = append(m.gone, last)
	if m.guards(last) {
		if reason, deliver := m.guard.Removed(it.object, c.Digested); !deliver {
			m.withhold(c, reason)
			return
		}
	}
	m.fire(c)
}

// send delivers an event, or holds it while the binding is locked. It requires order.
func (m *monitor) send(c Change) {
	if c.withheld != "" {
		if m.excluded != nil {
			m.excluded(c.withheld)
		}
		m.log.Debug("Event is not delivered", "reason", c.withheld, "watchEvent", c.watch.String(), "namespace", c.Object.Namespace,
			"name", c.Object.Name)
		return
	}
	if m.at() >= muted {
		return // before its bytes are stored
	}
	ev := m.event(c)
	m.mu.Lock()
	phase := m.phase
	if phase < open {
		m.held.Add(ev)
	}
	m.mu.Unlock()
	if phase == open {
		m.sink.Event(ev)
	}
}

// read returns the result of get, which may use the fields that mu guards.
func read[T any](m *monitor, get func() T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return get()
}

func (m *monitor) at() phase { return read(m, func() phase { return m.phase }) }

func (m *monitor) event(c Change) event.Event {
	o := c.Object
	ev := event.Event{
		Type: event.Change, Hook: m.hook, Index: m.index, Watch: c.watch, Initial: c.initial,
		Object: event.Object{Namespace: o.Namespace, Name: o.Name, Kind: o.Kind},
	}
	if m.binding.Group != "" {
		return ev // its binding context has snapshots only
	}
	ev.Object = m.contents(c.Digested, m.sink.Keep)
	if m.binding.Lanes.Key != "" {
		ev.Key = m.laneKey(read(m, func() string { return m.resource.Group }), c.Digested)
	}
	if c.identified {
		ev.Object.UID = o.UID
	}
	return ev
}

func (m *monitor) setResource(res kube.Resource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resource, m.division = res, divide(m.shard, m.hook, res)
}

// snapshot returns the objects that the binding has.
func (m *monitor) snapshot() event.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.copy()
}

// synchronize returns the objects and drops the held events, which led to them.
func (m *monitor) synchronize() event.Snapshot {
	m.order.Lock()
	defer m.order.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = event.Log{}
	return m.copy()
}

func (m *monitor) copy() *snapshot {
	return &snapshot{items: m.items.Copy(), full: m.binding.KeepFullObjects, filtered: m.program != nil, guard: m.guard,
		own: m.division.events()}
}

// unlock delivers the events that were held; later ones are delivered immediately.
func (m *monitor) unlock() {
	m.update(func() {
		if m.phase == locked {
			m.phase = open
		}
		m.unlocked()
	})
}

// unlocked notifies the guard. It requires mu.
func (m *monitor) unlocked() {
	if m.guard != nil {
		m.guard.Unlocked()
	}
}

// announce delivers Added for every object, marked as initial, and then events.
func (m *monitor) announce() {
	m.update(func() {
		if m.phase == locked {
			m.held, m.phase = event.Log{}, open
		}
		m.items.Scan(func(_ string, it item) bool {
			m.fire(Change{watch: event.Added, Digested: m.digested(it)})
			return true
		})
		for i := range m.fired {
			m.fired[i].initial = m.fired[i].watch == event.Added
		}
		m.unlocked()
	})
}

// Answered records and logs the outcome of a request. A trouble is logged when it begins, changes and ends.
func (m *monitor) Answered(sub *stream.Subscription, verb string, err error) {
	kind := stream.TroubleOf(err)
	if kind == stream.Expired {
		return
	}
	m.mu.Lock()
	s := m.subs[sub]
	if s == nil {
		m.mu.Unlock()
		return
	}
	isFilling, awaited := m.phase == filling, s.awaited
	problem := stream.Explain(sub.Scope, verb, err)
	before := s.failing[verb].kind
	if kind == stream.NoTrouble {
		delete(s.failing, verb)
	} else {
		s.failing[verb] = failure{kind, problem.Error()}
	}
	m.writes.settle()
	m.mu.Unlock()

	// The CRD of an optional kind may also have been replaced while the API server could not be reached.
	if kind == stream.NotServed || kind == stream.NoTrouble {
		kube.Wake(m.doubted)
	}
	if s.dispensable && verb == "list" && kind == stream.Forbidden {
		if awaited { // or this would wait for a sink, and delay other bindings
			m.doWithout(sub, problem)
		}
		if isFilling {
			return
		}
	}
	switch kind {
	case before:
	case stream.NoTrouble:
		m.log.Info("Watch recovered", "verb", verb, "scope", sub.Scope.String())
	default:
		m.complain(isFilling, problem)
	}
}

// doWithout completes the initial list without the objects of sub. They are Added once they can be listed.
func (m *monitor) doWithout(sub *stream.Subscription, err error) {
	var waiting bool
	m.update(func() {
		s := m.subs[sub]
		waiting = s != nil && s.awaited && m.phase == filling
		m.arrived(sub)
	})
	if waiting {
		m.log.Error("Watch Failed", "error", err.Error(), "consequence", "the hook starts without the objects of this namespace")
	}
}

func (m *monitor) Dropped(sub *stream.Subscription, changes int) {
	m.log.Warn("The binding is too slow, changes that wait were dropped: a new list delivers the last state of the objects",
		"changes", changes, "scope", sub.Scope.String(), "hint",
		"make jqFilter faster, select fewer objects, or give --tmp-dir a faster disk")
}

func (m *monitor) complain(isFilling bool, err error) {
	switch {
	case isFilling:
		m.stuck(err)
		return
	case errors.Is(err, installed.ErrMissing):
		return
	}
	m.log.Error("Watch Failed", "error", err.Error())
}

// snapshot has the objects of a moment.
type snapshot struct {
	items          *btree.Map[string, item]
	full, filtered bool
	guard          Guard
	// part are the objects that it shows, own those that are delivered.
	part, own stream.Part
}

var _ event.Divided = (*snapshot)(nil)

func (s *snapshot) Len() int {
	if s.part == stream.Everything {
		return s.items.Len()
	}
	n := 0
	s.items.Scan(func(_ string, it item) bool {
		if s.part.Has(it.object) {
			n++
		}
		return true
	})
	return n
}

func (s *snapshot) Own() event.Snapshot {
	own := *s
	own.part = s.own
	return &own
}

func (s *snapshot) Each(yield func(event.Object) bool) {
	s.items.Scan(func(_ string, it item) bool {
		if !s.part.Has(it.object) {
			return true
		}
		o := event.Object{Namespace: it.object.Namespace, Name: it.object.Name, Kind: it.object.Kind}
		if s.full {
			o.Full = event.Memory(it.object.JSON)
		}
		if s.filtered {
			o.Filtered = event.Memory(it.filtered)
		}
		o.Deleting = s.guard != nil && it.object.Terminating() && s.guard.Marks(it.object)
		return yield(o)
	})
}
