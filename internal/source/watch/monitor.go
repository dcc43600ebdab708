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
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// phase is how far a monitor is.
//
//	filling → locked → open → muted → ended
//
// The last two may follow any other one.
type phase int

const (
	// filling: the initial list is not complete, there are no events.
	filling phase = iota
	// locked: events are held until the Synchronization has succeeded; the snapshot for it replaces those held so far.
	locked
	// open: events are delivered.
	open
	// muted: events are not delivered any more, snapshots stay current.
	muted
	// ended: the binding has been disabled.
	ended
)

// monitor has the objects of one kubernetes binding and decides whether their changes are events.
type monitor struct {
	address
	// stuck reports why the initial list is not complete.
	stuck   func(error)
	binding *hook.Kubernetes
	program *jq.Filter // nil without jqFilter
	// keyProgram is nil unless the binding's queue has a jq key. filters has program and keyProgram, unless nil.
	keyProgram *jq.Filter
	filters    []*jq.Filter
	// keepManagedFields: objects have their managedFields.
	keepManagedFields bool

	// filterErrors makes one record a minute of all failures of jqFilter.
	filterErrors, keyErrors logonce.Dedup
	sink                    Sink
	meter                   Meter
	log                     *slog.Logger
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
	// fired are the events of the change that is being made, quiet is true for an initial list. order guards them.
	fired []fired
	quiet bool
	// gone are the objects that the change removes. order guards them, too.
	gone []*object

	mu sync.Mutex
	// items is ordered by object key. Copies are cheap and are read without the lock.
	items btree.Map[string, item]
	// absent are namespaces of the binding that did not exist when it was enabled.
	absent []string
	// keys are the results of keyProgram, by object key.
	keys map[string]string
	// own are changes by the operator, by object key. It has only objects with changes whose events are outstanding.
	own map[string]*ownChanges
	// unseen are the generations of objects before changes of it by the hook that are no events, by object key.
	unseen map[string]string
	// resource is the resource of the binding's kind.
	resource kube.Resource
	// shard is the shard of this replica, division the part of the binding's objects that it has.
	shard    shard.Shard
	division division
	// awaited is the number of subscriptions that have not delivered a list.
	awaited int
	phase   phase
	// resting: on a standby the objects follow the cluster without events, for days if need be.
	resting bool
	// held are the events since the last snapshot for a Synchronization, until the phase is open.
	held event.Log
	// total counts changes since the start, recent those since the last run of the hook.
	total, recent Changes
	// subs are all subscriptions of the binding, including the one of a follower. Deliveries of others are ignored.
	subs map[*subscription]*source
	// waits are for the binding to show changes by runs of the hook.
	waits []*showing

	// filterError is the last one.
	filterError string
	// gate is nil without a finalizer.
	gate *gate
	// records are written to the log when mu is released: a log that blocks must not hold up snapshots.
	records []func()
}

// fired is an event, or the reason why it is not delivered.
type fired struct {
	watch event.Watch
	digested
	initial     bool
	undelivered string
	// release: a successful run removes the finalizer.
	release bool
}

// item is an object of a binding and the subscription that delivered it.
type item struct {
	object   *object
	filtered []byte
	from     *subscription
	// unannounced: the hook does not know the object and gets no event of it, because it was being deleted when the binding got it.
	unannounced bool
}

var _ consumer = (*monitor)(nil)

func newMonitor(h *hook.Hook, index int, sink Sink, meter Meter, log *slog.Logger) *monitor {
	life, stop := context.WithCancel(context.Background())
	return &monitor{
		life: life, stop: stop, doubted: make(chan struct{}, 1),
		address: address{h, index}, binding: &h.Kubernetes[index], stuck: func(error) {}, sink: sink, meter: meter, log: log,
		filled: make(chan struct{}), keys: map[string]string{}, own: map[string]*ownChanges{}, unseen: map[string]string{},
		subs:         map[*subscription]*source{},
		filterErrors: logonce.Dedup{Every: time.Minute},
	}
}

func (m *monitor) needs() needs {
	return needs{m.binding.KeepFullObjects, m.gate != nil || m.binding.Condition != "" || m.binding.IgnoreOwn, m.filters}
}

// holding finds objects of the binding by key, uid and version.
func (m *monitor) holding() func(key, uid, version string) *object {
	if !m.binding.KeepFullObjects {
		return nil
	}
	m.mu.Lock()
	items := m.items.Copy()
	m.mu.Unlock()
	if items.Len() == 0 {
		return nil
	}
	return func(key, uid, version string) *object {
		if it, ok := items.Get(key); ok && it.object.uid == uid && it.object.resourceVersion == version {
			return it.object
		}
		return nil
	}
}

// null is the result of a filter that failed. No other result has its memory.
var null = []byte("null")

func isFailure(filtered []byte) bool { return len(filtered) > 0 && &filtered[0] == &null[0] }

func (m *monitor) filter(ctx context.Context, o *object, content *jq.Object) (r filtered) {
	if m.program != nil {
		if r.filtered = m.applyFilter(ctx, o, content); r.filtered == nil {
			return r
		}
	}
	if m.keyProgram != nil {
		text, err := m.keyProgram.ApplyTo(ctx, content)
		switch {
		case err == nil:
			r.key = event.KeyText(text)
		case ctx.Err() != nil:
			return filtered{}
		default:
			m.keyFailed(o, err)
		}
	}
	r.done = true
	return r
}

func (m *monitor) keyFailed(o *object, err error) {
	m.meter.KeyFailed(m.hook, m.index, err)
	if _, due := m.keyErrors.Due(err.Error(), ""); due {
		m.log.Error("The key of the queue failed, the key of the object is used; later failures are only counted",
			"queue", m.binding.Queue, "namespace", o.namespace, "name", o.name, "kind", o.kind, "error", err.Error(),
			"hint", "correct queue.key in all bindings of the queue")
	}
}

// applyFilter returns nil when ctx has ended.
func (m *monitor) applyFilter(ctx context.Context, o *object, content *jq.Object) []byte {
	started := time.Now()
	result, err := m.program.ApplyTo(ctx, content)
	m.meter.Filtered(m.hook, m.index, time.Since(started))
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		m.meter.FilterFailed(m.hook, m.index, err)
		m.filterFailed(o, err.Error())
		return null
	}
	return result
}

func (m *monitor) filterFailed(o *object, problem string) {
	m.mu.Lock()
	m.filterError = problem
	m.mu.Unlock()
	if before, due := m.filterErrors.Due("filter", ""); due {
		m.log.Error("jqFilter failed, the object's filterResult is null",
			"namespace", o.namespace, "name", o.name, "kind", o.kind, "failures", before+1, "error", problem)
	}
}

// expect awaits a list of sub. It returns false if the binding was disabled, or the parent of s abandoned.
func (m *monitor) expect(sub *subscription, s source) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == ended || s.parent != nil && m.subs[s.parent] == nil {
		return false
	}
	s.selection, s.awaited = sub.scope.selection(), true
	m.subs[sub] = &s
	m.awaited++
	return true
}

// watches reports whether the binding has streams of its kind.
func (m *monitor) watches() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for sub := range m.subs {
		if sub.consumer == consumer(m) {
			return true
		}
	}
	return false
}

// arrived records that sub has delivered a list, or is not waited for. It requires mu.
func (m *monitor) arrived(sub *subscription) {
	if s := m.subs[sub]; s != nil {
		m.stopAwaiting(s)
	}
}

// stopAwaiting requires mu.
func (m *monitor) stopAwaiting(s *source) {
	if !s.awaited {
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
		m.sink.Gone(m.hook, m.index, event.Object{Namespace: o.namespace, Name: o.name, Kind: o.kind})
	}
	m.gone = nil
	for ev := range held.All(m.hook) {
		if m.at() >= muted {
			break
		}
		m.sink.Event(ev)
	}
	for _, f := range m.fired {
		m.send(f)
	}
	m.fired, m.quiet = nil, false
}

// locked calls do with mu held, and then writes the records of logLater.
func (m *monitor) locked(do func()) {
	m.mu.Lock()
	do()
	m.settleWaits()
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

func (m *monitor) replace(sub *subscription, entries []digested) {
	slices.SortFunc(entries, func(a, b digested) int { return cmp.Compare(a.object.key, b.object.key) })
	m.update(func() {
		if m.subs[sub] == nil {
			return
		}
		m.quiet = m.phase == filling
		if m.items.Len() > 0 || m.gate != nil {
			present := make(map[string]bool, len(entries))
			for _, e := range entries {
				present[e.object.key] = true
			}
			m.dropAll(func(key string, it item) bool { return it.from == sub && !present[key] })
			m.dismissAll(func(l *change) bool { return l.sub == sub && !present[l.key] })
		}
		for _, e := range entries {
			m.put(sub, e)
		}
		m.arrived(sub)
	})
}

func (m *monitor) change(sub *subscription, e digested) {
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

func (m *monitor) remove(sub *subscription, o *object) {
	defer m.handled(time.Now())
	m.update(func() {
		if m.subs[sub] == nil {
			return
		}
		m.dismissAll(func(l *change) bool { return l.key == o.key })
		if it, ok := m.items.Get(o.key); ok {
			// The filter is not applied: the hook has the last result.
			m.drop(it, o)
		}
	})
}

// abandon drops sub, its descendants and all their objects; the hook receives Deleted for them.
func (m *monitor) abandon(sub *subscription) (left []*subscription) {
	m.update(func() {
		left = m.descendants(sub)
		sources := make([]*source, len(left))
		for i, other := range left {
			sources[i] = m.subs[other]
			delete(m.subs, other)
		}
		m.dropAll(func(_ string, it item) bool { return m.subs[it.from] == nil })
		m.dismissAll(func(l *change) bool { return m.subs[l.sub] == nil })
		for _, s := range sources {
			m.stopAwaiting(s)
		}
	})
	return left
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
func (m *monitor) put(sub *subscription, e digested) {
	old, had := m.items.Get(e.object.key)
	if m.gates(e.object) && !m.admit(sub, e.object, old, had) {
		return
	}
	switch {
	case had && old.object.uid == e.object.uid && old.object.resourceVersion == e.object.resourceVersion &&
		!(sub.recast && old.object.json != nil && !bytes.Equal(old.object.json, e.object.json)):
		e.object = old.object // other bindings share its bytes
	case !m.binding.KeepFullObjects && e.object.json != nil:
		slim := *e.object // or the bytes would stay when the binding that needs them is disabled
		slim.json = nil
		e.object = &slim
	}
	if m.gate != nil {
		m.gate.meet(e.object.uid)
	}
	it := item{object: e.object, filtered: e.filtered, from: sub}
	if had && old.object.uid == e.object.uid {
		it.unannounced = old.unannounced
	} else {
		it.unannounced = m.gates(e.object) && m.phase == open && m.gate.isUnannounced(e.object)
	}
	switch {
	case !had:
		m.items.Load(e.object.key, it) // Set, but faster for keys in order
		m.count(Changes{Added: 1})
		m.fire(event.Added, e)
	case old.object.uid != e.object.uid:
		// Deleted and created again, and the watch has missed that.
		m.drop(old, old.object)
		m.items.Set(e.object.key, it)
		m.count(Changes{Added: 1})
		m.fire(event.Added, e)
	case m.same(old, it):
		if m.program != nil {
			m.undelivered(event.Modified, e, "the result of jqFilter is the same")
		}
		if isFailure(it.filtered) == isFailure(old.filtered) {
			it.filtered = old.filtered // saves a copy
		}
		m.items.Set(e.object.key, it)
		if old.object.generation() != e.object.generation() {
			delete(m.unseen, e.object.key) // a change of another client, which the hook does not see
		}
	default:
		m.items.Set(e.object.key, it)
		m.count(Changes{Modified: 1})
		m.modified(old.object, e)
	}
	m.settleOwn(e.object)
	if m.keyProgram != nil {
		m.keys[e.object.key] = e.key
	}
}

// same reports whether two states are one for the hook. With a condition each generation is another one, although the filter hides what
// has changed: the condition has the generation that the hook has seen.
func (m *monitor) same(a, b item) bool {
	switch now := b.object; {
	case m.program == nil:
		return a.object.resourceVersion == now.resourceVersion && (a.object == now || !b.from.recast)
	case !bytes.Equal(a.filtered, b.filtered) || m.gate != nil && a.object.terminating() != now.terminating():
		return false
	default:
		return m.binding.Condition == "" || now.terminating() || a.object.generation() == now.generation()
	}
}

// drop removes an item; last is the object's last known state.
func (m *monitor) drop(it item, last *object) {
	m.items.Delete(it.object.key)
	if own := m.own[it.object.key]; own != nil {
		m.fireWaiting(own)
		delete(m.own, it.object.key)
	}
	m.gone = append(m.gone, last)
	m.count(Changes{Deleted: 1})
	e := digested{last, it.filtered, m.keys[it.object.key]}
	switch {
	case it.unannounced:
		m.gate.forget(it.object.uid)
		m.undelivered(event.Deleted, e, "the object was being deleted when the binding got it, the hook does not know it")
	case !m.gates(last) || !m.dropFinalized(it, e):
		m.fire(event.Deleted, e)
	}
	delete(m.keys, it.object.key)
	delete(m.unseen, it.object.key)
}

// fire makes an event, if the binding wants it.
func (m *monitor) fire(watch event.Watch, e digested) {
	b := m.binding
	switch {
	case m.phase >= muted:
	case !m.division.events().has(e.object):
		m.undelivered(watch, e, "another shard has the object")
	case m.phase == filling || m.gate != nil && m.gate.phase == gateStarting:
		m.undelivered(watch, e, "the Synchronization will contain it")
	case m.resting && m.division.rests:
		m.undelivered(watch, e, "the hook runs on shard 0")
	case m.resting:
		m.undelivered(watch, e, "this replica is on standby")
	case m.gate != nil && watch != event.Deleted && e.object.terminating():
		m.startsDeleting(watch, e)
	case watch == event.Added && !b.Added || watch == event.Modified && !b.Modified || watch == event.Deleted && !b.Deleted:
		m.undelivered(watch, e, "executeHookOnEvent does not include its type")
	default:
		m.fired = append(m.fired, fired{watch: watch, digested: e})
	}
}

func (m *monitor) undelivered(watch event.Watch, e digested, reason string) {
	if !m.quiet && (m.excluded != nil || m.log.Enabled(context.Background(), slog.LevelDebug)) {
		m.fired = append(m.fired, fired{watch: watch, digested: e, undelivered: reason})
	}
}

// send delivers an event, or holds it while the binding is locked. It requires order.
func (m *monitor) send(f fired) {
	if f.undelivered != "" {
		if m.excluded != nil {
			m.excluded(f.undelivered)
		}
		m.log.Debug("Event is not delivered", "reason", f.undelivered, "watchEvent", f.watch.String(), "namespace", f.object.namespace,
			"name", f.object.name)
		return
	}
	if m.at() >= muted {
		return // before its bytes are stored
	}
	ev := m.event(f)
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

// at returns the phase.
func (m *monitor) at() phase {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.phase
}

func (m *monitor) event(f fired) event.Event {
	o := f.object
	ev := event.Event{
		Type: event.Change, Hook: m.hook, Index: m.index, Watch: f.watch, Initial: f.initial,
		Object: event.Object{Namespace: o.namespace, Name: o.name, Kind: o.kind},
	}
	if m.binding.Group != "" {
		return ev // its binding context has snapshots only
	}
	ev.Object, ev.Key = m.contents(f.digested, m.sink.Keep), m.laneKey(m.group(), f.digested)
	if f.release {
		ev.Object.UID = o.uid
	}
	return ev
}

// contents is what the binding keeps of an object.
func (m *monitor) contents(e digested, keep func([]byte) event.Payload) event.Object {
	o := event.Object{Namespace: e.object.namespace, Name: e.object.name, Kind: e.object.kind}
	if m.binding.KeepFullObjects {
		o.Full = keep(e.object.json)
	}
	if m.program != nil {
		o.Filtered = keep(e.filtered)
	}
	return o
}

func inMemory(text []byte) event.Payload { return event.Memory(text) }

// laneKey is the key of an object in the binding's queue; empty if that is not keyed.
func (m *monitor) laneKey(group string, e digested) string {
	lanes, o := m.binding.Lanes, e.object
	if !lanes.Keyed() {
		return ""
	}
	return event.KeyOf(lanes.Key, event.ObjectName{Group: group, Kind: o.kind, Namespace: o.namespace, Name: o.name}, e.key)
}

func (m *monitor) group() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resource.Group
}

func (m *monitor) setResource(res kube.Resource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resource, m.division = res, divide(m.shard, m.hook, res)
	if m.gate != nil {
		m.gate.resource = res
	}
}

// divided returns what this replica has of the binding.
func (m *monitor) divided() division {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.division
}

// gates reports whether an object has to have the finalizer. That is up to its shard. It requires mu.
func (m *monitor) gates(o *object) bool { return m.gate != nil && m.division.events().has(o) }

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
	return &snapshot{items: m.items.Copy(), full: m.binding.KeepFullObjects, filtered: m.program != nil, finalizer: m.binding.Finalizer,
		own: m.division.events()}
}

// rest decides whether the objects follow the cluster without events.
func (m *monitor) rest(resting bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resting = resting || m.division.rests
}

// unlock delivers the events that were held; later ones are delivered immediately.
func (m *monitor) unlock() {
	m.update(func() {
		if m.phase == locked {
			m.phase = open
		}
		m.fireDelayed()
	})
}

// announce delivers Added for every object, marked as initial, and then events.
func (m *monitor) announce() {
	m.update(func() {
		if m.phase == locked {
			m.held, m.phase = event.Log{}, open
		}
		m.items.Scan(func(_ string, it item) bool {
			m.fire(event.Added, digested{it.object, it.filtered, m.keys[it.object.key]})
			return true
		})
		for i := range m.fired {
			m.fired[i].initial = m.fired[i].watch == event.Added
		}
		m.fireDelayed()
	})
}

// answered records and logs the outcome of a request. A trouble is logged when it begins, changes and ends.
func (m *monitor) answered(sub *subscription, verb string, err error) {
	kind := kindOfTrouble(err)
	if kind == expired {
		return
	}
	m.mu.Lock()
	s := m.subs[sub]
	if s == nil {
		m.mu.Unlock()
		return
	}
	isFilling, awaited := m.phase == filling, s.awaited
	problem := explain(sub.scope, verb, err)
	before := s.note(verb, kind, problem)
	m.settleWaits()
	m.mu.Unlock()

	// The CRD of an optional kind may also have been replaced while the API server could not be reached.
	if kind == notServed || kind == noTrouble {
		kube.Wake(m.doubted)
	}
	if s.optional && verb == "list" && kind == forbidden {
		if awaited { // or this would wait for a sink, and delay other bindings
			m.doWithout(sub, problem)
		}
		if isFilling {
			return
		}
	}
	switch kind {
	case before:
	case noTrouble:
		m.log.Info("Watch recovered", "verb", verb, "scope", sub.scope.String())
	default:
		m.complain(isFilling, problem)
	}
}

// doWithout completes the initial list without the objects of sub. They are Added once they can be listed.
func (m *monitor) doWithout(sub *subscription, err error) {
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

func (m *monitor) dropped(sub *subscription, changes int) {
	m.log.Warn("The binding is too slow, changes that wait were dropped: a new list delivers the last state of the objects",
		"changes", changes, "scope", sub.scope.String(), "hint",
		"make jqFilter faster, select fewer objects, or give --tmp-dir a faster disk")
}

func (m *monitor) complain(isFilling bool, err error) {
	switch {
	case isFilling:
		m.stuck(err)
		return
	case errors.Is(err, errMissing):
		return
	}
	m.log.Error("Watch Failed", "error", err.Error())
}

// snapshot has the objects of a moment.
type snapshot struct {
	items          *btree.Map[string, item]
	full, filtered bool
	finalizer      string
	// part are the objects that it shows, own those that are delivered.
	part, own part
}

var _ event.Divided = (*snapshot)(nil)

func (s *snapshot) Len() int {
	if s.part == everything {
		return s.items.Len()
	}
	n := 0
	s.items.Scan(func(_ string, it item) bool {
		if s.part.has(it.object) {
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
		if !s.part.has(it.object) {
			return true
		}
		o := event.Object{Namespace: it.object.namespace, Name: it.object.name, Kind: it.object.kind}
		if s.full {
			o.Full = event.Memory(it.object.json)
		}
		if s.filtered {
			o.Filtered = event.Memory(it.filtered)
		}
		o.Deleting = s.finalizer != "" && it.object.terminating() && it.object.has(s.finalizer)
		return yield(o)
	})
}
