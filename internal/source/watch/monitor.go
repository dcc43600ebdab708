package watch

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// monitor is what one kubernetes binding sees: its objects, and whether events may leave already.
//
//	filling → (resting →) locked → unlocked
//
// While filling, objects only go into the set. While locked, events are kept back until the
// Synchronization has succeeded; taking the set for it forgets them, because it shows what they tell.
// On a standby a binding rests first: the set follows the cluster, and no event is made, however long that lasts.
type monitor struct {
	// owner is whom the events are for. Only move changes it, and holds mu.
	owner   atomic.Pointer[owner]
	binding *hook.Kubernetes
	program *jq.Filter // nil without jqFilter
	sink    Sink
	meter   Meter // nil: nobody measures
	log     *slog.Logger
	// filled is closed when the first complete set is there.
	filled chan struct{}

	mu sync.Mutex
	// items is ordered by object key. Copies of it are cheap and may be read without the lock.
	items btree.Map[string, item]
	// awaited are the subscriptions without which the first set is not complete. It is nil afterwards.
	awaited  map[*subscription]bool
	unlocked bool
	// resting is true until this replica leads.
	resting bool
	// held are the events since the set was last taken for a Synchronization. Empty when unlocked.
	held event.Log
	// troubles remembers, for each stream and verb that is in trouble, what has been told already.
	troubles map[requestKey]complaint
	// total counts changes of the set since the start, recent those since the hook was last run.
	total, recent Changes
	// subs are all subscriptions, also those that others made for this binding.
	subs map[*subscription]bool
	// muted is set when no more events are wanted.
	muted bool
	// ended is set when the binding has been disabled.
	ended bool

	failures filterFailures
}

// owner is a binding of a hook, and whom to tell why it cannot be enabled yet.
type owner struct {
	address
	stuck func(error)
}

type complaint struct {
	kind troubleKind
	text string
}

type requestKey struct {
	stream *stream
	verb   string
}

// item is an object in the set of a binding.
type item struct {
	entry
	from *subscription
}

var _ consumer = (*monitor)(nil)

func (m *monitor) needs() (filter *jq.Filter, json bool) {
	return m.program, m.binding.KeepFullObjects
}

// null stands for the result of a filter that failed.
var null = []byte("null")

func (m *monitor) filter(ctx context.Context, o *object, content *jq.Object) []byte {
	started := time.Now()
	result, err := m.program.ApplyTo(ctx, content)
	if m.meter != nil {
		m.meter.Filtered(m.hook(), m.index(), time.Since(started))
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		m.sink.FilterFailed(m.hook(), m.index())
		m.failures.failed(m.log, o, err)
		return null
	}
	m.failures.forget(o.key)
	return result
}

func (m *monitor) hook() *hook.Hook { return m.owner.Load().hook }
func (m *monitor) index() int       { return m.owner.Load().index }

// expect makes the first set wait for sub. It returns false when the binding has been disabled.
func (m *monitor) expect(sub *subscription) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return false
	}
	if m.subs == nil {
		m.subs = map[*subscription]bool{}
	}
	m.subs[sub] = true
	if m.awaited != nil {
		m.awaited[sub] = true
	}
	return true
}

// arrived tells that sub's part of the first set is there.
func (m *monitor) arrived(sub *subscription) {
	if m.awaited == nil {
		return
	}
	delete(m.awaited, sub)
	if len(m.awaited) == 0 {
		m.awaited = nil
		close(m.filled)
	}
}

func (m *monitor) replace(sub *subscription, entries []entry, except map[string]bool) {
	defer m.failures.report(m.log)
	m.mu.Lock()
	defer m.mu.Unlock()
	if sub.left {
		return
	}
	var gone []item
	if m.items.Len() > 0 {
		present := make(map[string]bool, len(entries))
		for _, e := range entries {
			present[e.object.key] = true
		}
		m.items.Scan(func(key string, it item) bool {
			if it.from == sub && !present[key] && !except[key] {
				gone = append(gone, it)
			}
			return true
		})
	}
	for _, it := range gone {
		m.drop(it, it.object)
		m.failures.forget(it.object.key)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.object.key, b.object.key) })
	for _, e := range entries {
		if !except[e.object.key] {
			m.put(sub, e)
		}
	}
	m.arrived(sub)
	m.sink.Objects(m.hook(), m.index(), m.items.Len())
}

func (m *monitor) change(sub *subscription, e entry) {
	defer m.handled(time.Now())
	defer m.failures.report(m.log)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !sub.left {
		m.put(sub, e)
		m.sink.Objects(m.hook(), m.index(), m.items.Len())
	}
}

func (m *monitor) handled(since time.Time) {
	if m.meter != nil {
		m.meter.Handled(m.hook(), m.index(), time.Since(since))
	}
}

func (m *monitor) remove(sub *subscription, o *object) {
	defer m.handled(time.Now())
	m.mu.Lock()
	defer m.mu.Unlock()
	if sub.left {
		return
	}
	if it, ok := m.items.Get(o.key); ok {
		// The filter is not asked again: what the hook knows of the object is the last result.
		m.drop(it, o)
		m.failures.forget(o.key)
		m.sink.Objects(m.hook(), m.index(), m.items.Len())
	}
}

// abandon forgets all objects that came by sub; to the hook they are deleted.
func (m *monitor) abandon(sub *subscription) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sub.left = true
	delete(m.subs, sub)
	maps.DeleteFunc(m.troubles, func(key requestKey, _ complaint) bool { return key.stream == sub.stream })
	var gone []item
	m.items.Scan(func(_ string, it item) bool {
		if it.from == sub {
			gone = append(gone, it)
		}
		return true
	})
	for _, it := range gone {
		m.drop(it, it.object)
		m.failures.forget(it.object.key)
	}
	m.arrived(sub)
	m.sink.Objects(m.hook(), m.index(), m.items.Len())
}

// put stores an entry and fires what it means compared with what was there.
func (m *monitor) put(sub *subscription, e entry) {
	old, had := m.items.Get(e.object.key)
	switch {
	case !had:
		m.items.Load(e.object.key, item{e, sub}) // as Set does, and faster for those of a list, which are in order
		m.count(Changes{Added: 1})
		m.fire(event.Added, e)
	case old.object.uid != e.object.uid:
		// Deleted and created again while we could not see it.
		m.drop(old, old.object)
		m.items.Set(e.object.key, item{e, sub})
		m.count(Changes{Added: 1})
		m.fire(event.Added, e)
	case m.same(old.entry, e):
		e.filtered = old.filtered // one copy is enough
		m.items.Set(e.object.key, item{e, sub})
	default:
		m.items.Set(e.object.key, item{e, sub})
		m.count(Changes{Modified: 1})
		m.fire(event.Modified, e)
	}
}

func (m *monitor) same(a, b entry) bool {
	if m.program != nil {
		return bytes.Equal(a.filtered, b.filtered)
	}
	return a.object.resourceVersion == b.object.resourceVersion
}

// drop removes an item; last is the object's last known state.
func (m *monitor) drop(it item, last *object) {
	m.items.Delete(it.object.key)
	m.count(Changes{Deleted: 1})
	m.fire(event.Deleted, entry{last, it.filtered})
}

// fire sends an event, or keeps it back, if the binding wants it.
func (m *monitor) fire(watch event.Watch, e entry) {
	b := m.binding
	wanted := watch == event.Added && b.Added || watch == event.Modified && b.Modified || watch == event.Deleted && b.Deleted
	if !wanted || m.awaited != nil || m.resting || m.muted {
		return
	}
	ev := m.event(watch, e)
	if m.unlocked {
		m.sink.Event(ev)
		return
	}
	m.held.Add(ev)
}

func (m *monitor) event(watch event.Watch, e entry) event.Event {
	ev := event.Event{
		Type: event.Change, Hook: m.hook(), Index: m.index(), Watch: watch,
		Object: event.Object{Namespace: e.object.namespace, Name: e.object.name, Kind: e.object.kind},
	}
	if m.binding.Group != "" {
		return ev // its context shows snapshots only
	}
	if m.binding.KeepFullObjects {
		ev.Object.Full = m.sink.Keep(e.object.json)
	}
	if m.program != nil {
		ev.Object.Filtered = m.sink.Keep(e.filtered)
	}
	return ev
}

// snapshot returns the set as it is now.
func (m *monitor) snapshot() event.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.copy()
}

// synchronize returns the set as it is now and forgets the events that led to it.
func (m *monitor) synchronize() event.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = event.Log{}
	return m.copy()
}

func (m *monitor) copy() event.Snapshot {
	return &snapshot{items: m.items.Copy(), full: m.binding.KeepFullObjects, filtered: m.program != nil}
}

// lead makes changes count from now on.
func (m *monitor) lead() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resting = false
}

// unlock lets events through, first those that were kept back.
func (m *monitor) unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ev := range m.held.All(m.hook()) {
		ev.Index = m.index() // it may have moved meanwhile
		m.sink.Event(ev)
	}
	m.held, m.unlocked = event.Log{}, true
}

// announce sends every object as if it had just been added, and then lets events through.
func (m *monitor) announce() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.unlocked = event.Log{}, true
	m.items.Scan(func(_ string, it item) bool {
		m.fire(event.Added, it.entry)
		return true
	})
}

// answered keeps the log true about what the binding is waiting for.
func (m *monitor) answered(sub *subscription, verb string, err error) {
	kind := kindOfTrouble(err)
	if kind == expired {
		return
	}
	m.mu.Lock()
	filling := m.awaited != nil
	if sub.left {
		m.mu.Unlock()
		return
	}
	key := requestKey{sub.stream, verb}
	before := m.troubles[key].kind
	if kind == noTrouble {
		delete(m.troubles, key)
	} else if kind != before {
		if m.troubles == nil {
			m.troubles = map[requestKey]complaint{}
		}
		m.troubles[key] = complaint{kind, explain(sub.stream.scope, verb, err).Error()}
	}
	m.mu.Unlock()

	if filling && sub.optional && verb == "list" && (kind == forbidden || kind == notServed) {
		m.doWithout(sub, explain(sub.stream.scope, verb, err))
		return
	}
	switch kind {
	case before:
	case noTrouble:
		m.log.Info("Watch recovered", "verb", verb, "scope", sub.stream.scope.String())
	default:
		m.complain(filling, explain(sub.stream.scope, verb, err))
	}
}

// doWithout lets the first set be complete without a part of it. What belongs to it comes as Added once it can be seen.
func (m *monitor) doWithout(sub *subscription, err error) {
	m.mu.Lock()
	waiting := m.awaited[sub]
	m.arrived(sub)
	m.mu.Unlock()
	if waiting {
		m.log.Error("Watch Failed", "error", err.Error(), "consequence", "the hook starts without the objects of this namespace")
	}
}

func (m *monitor) complain(filling bool, err error) {
	if filling {
		m.owner.Load().stuck(err)
		return
	}
	m.log.Error("Watch Failed", "error", err.Error())
}

// snapshot is a set of objects at one moment.
type snapshot struct {
	items          *btree.Map[string, item]
	full, filtered bool
}

func (s *snapshot) Len() int { return s.items.Len() }

func (s *snapshot) Each(yield func(event.Object) bool) {
	s.items.Scan(func(_ string, it item) bool {
		o := event.Object{Namespace: it.object.namespace, Name: it.object.name, Kind: it.object.kind}
		if s.full {
			o.Full = event.Memory(it.object.json)
		}
		if s.filtered {
			o.Filtered = event.Memory(it.filtered)
		}
		return yield(o)
	})
}
