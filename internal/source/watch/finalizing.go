package watch

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// finalizing is the part of a monitor whose binding has a finalizer. monitor.mu guards it; no lock is held during a request.
//
//	passive → starting → active
//
// Passive, objects reach the binding as they are: on a standby, and until their list is complete. Then each object that lives gets the
// finalizer before the binding gets the object: until the answer, the object is a claim. Watch and answers are ordered by the object's
// version, so it does not matter which is first.
type finalizing struct {
	name     string
	resource kube.Resource
	// add and remove send a request, and return the object.
	add, remove func(context.Context, kube.Finalized) ([]byte, error)
	// wake signals the dispatcher that a request may be due. Its capacity is 1. ended is closed when the binding is disabled, idle when no request is
	// in flight then.
	wake, ended, idle chan struct{}

	active, starting, halted bool
	// awaited is the number of claims without a first answer that the end of starting waits for; settled is closed then.
	awaited int
	settled chan struct{}
	// claims are the requests to add the finalizer, by object key.
	claims map[string]*request
	// queue has the requests that wait, flying is the number of those that are being sent.
	queue  requests
	seq    int
	flying int
	// forbidden is why no finalizer can be added; no request to add one is sent before paused.
	forbidden string
	paused    time.Time
	// trouble is why the binding cannot have its finalizer.
	trouble string

	// deleting are the uids whose Deleting was delivered, removed those whose finalizer has been removed while the binding has them, released
	// those that a user has released.
	deleting, removed, released map[string]bool
	// kept are the uids, among deleting, whose clean-up has another step: no run is in progress, and Deleting is delivered again.
	kept map[string]bool
	// floors are the versions of objects, by key, whose finalizer has been removed after they left: older states are outdated.
	floors map[string]floor
	// left are objects that the binding has no more, and that may have the finalizer. They are delivered after the Synchronization.
	left []entry
	// known are the uids that the binding has had, until the objects have been found that left before the start; nil afterwards. unfound is why that
	// has failed.
	known   map[string]bool
	unfound string
}

// meet notes an object that the binding has, or is about to have.
func (f *finalizing) meet(uid string) {
	if f.known != nil {
		f.known[uid] = true
	}
}

type floor struct {
	uid     string
	version uint64
}

// request adds or removes the finalizer of one object.
type request struct {
	object kube.Finalized
	key    string
	remove bool
	// sub delivered the object to which the finalizer is added.
	sub *subscription
	due time.Time
	seq int
	// failures counts attempts, err is the last failure.
	failures int
	err      string
	// awaited: starting waits for the first answer. left: the binding has the object no more. superseded: the object has been delivered.
	awaited, left, superseded bool
}

// requests is a heap, by due and then by order.
type requests []*request

func (q requests) Len() int { return len(q) }
func (q requests) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].seq < q[j].seq
	}
	return q[i].due.Before(q[j].due)
}
func (q requests) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *requests) Push(x any)   { *q = append(*q, x.(*request)) }
func (q *requests) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return r
}

const (
	// finalizersInFlight bounds the requests of a binding that are in flight.
	finalizersInFlight = 16
	// forbiddenDelay is the time between requests while the permission is missing.
	forbiddenDelay = 30 * time.Second
	// regainDelay is the time before a finalizer is added again that another client has removed from an object that lives: the two do not fight
	// at full speed.
	regainDelay = time.Second
	// The delay after a failed request doubles between these.
	minFinalizerDelay, maxFinalizerDelay = 500 * time.Millisecond, time.Minute
)

func newFinalizing(name string) *finalizing {
	return &finalizing{
		name: name, wake: make(chan struct{}, 1), ended: make(chan struct{}), idle: make(chan struct{}), settled: make(chan struct{}), claims: map[string]*request{},
		deleting: map[string]bool{}, removed: map[string]bool{}, released: map[string]bool{}, kept: map[string]bool{}, floors: map[string]floor{},
	}
}

func (f *finalizing) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *finalizing) push(r *request, due time.Time) {
	f.seq++
	r.seq, r.due = f.seq, due
	heap.Push(&f.queue, r)
	f.signal()
}

// admit decides whether a state of an object reaches the binding. Otherwise it is outdated, or the object has to get the finalizer before.
func (m *monitor) admit(sub *subscription, e entry, old item, had bool) bool {
	f, o := m.finalizing, e.object
	if !f.active {
		return true
	}
	same := had && old.object.uid == o.uid
	if f.outdated(o) || same && older(o, old.object) {
		m.keep(sub, old, had)
		return false
	}
	if o.terminating() || o.has(f.name) || f.released[o.uid] {
		if r := f.claims[o.key]; r != nil {
			r.superseded = true
			m.unclaim(r)
		}
		return true
	}
	switch {
	case same:
		m.keep(sub, old, had)
		m.claim(sub, o, time.Now().Add(regainDelay))
	case had: // deleted and created again, and the watch has missed that
		m.drop(old, old.object)
		m.claim(sub, o, time.Time{})
	default:
		m.claim(sub, o, time.Time{})
	}
	return false
}

// keep keeps an item although a subscription has delivered another state.
func (m *monitor) keep(sub *subscription, it item, had bool) {
	if had && it.from != sub {
		it.from = sub
		m.items.Set(it.object.key, it)
	}
}

// older compares versions, if they can be compared.
func older(a, b *object) bool {
	v, than := version(a.resourceVersion), version(b.resourceVersion)
	return v != 0 && v < than
}

// outdated reports whether a state is older than the removal of the finalizer, and forgets removals that the watch has passed.
func (f *finalizing) outdated(o *object) bool {
	if len(f.floors) == 0 {
		return false
	}
	v := version(o.resourceVersion)
	last, ok := f.floors[o.key]
	old := ok && last.uid == o.uid && v != 0 && v < last.version
	for key, last := range f.floors {
		if last.version < v {
			delete(f.floors, key)
		}
	}
	return old
}

// claim requests that the finalizer is added to an object.
func (m *monitor) claim(sub *subscription, o *object, due time.Time) *request {
	f := m.finalizing
	if r := f.claims[o.key]; r != nil {
		if r.object.UID == o.uid {
			r.sub, r.object.Finalizers = sub, o.finalizers()
			return r
		}
		r.left = true
		m.unclaim(r)
	}
	f.meet(o.uid)
	r := &request{key: o.key, sub: sub, object: f.object(o)}
	f.claims[o.key] = r
	f.push(r, due)
	return r
}

func (f *finalizing) object(o *object) kube.Finalized {
	return kube.Finalized{Resource: f.resource, Namespace: o.namespace, Name: o.name, UID: o.uid, Finalizers: o.finalizers()}
}

// unclaim ends a claim.
func (m *monitor) unclaim(r *request) {
	delete(m.finalizing.claims, r.key)
	m.finalizing.answered(r)
}

// answered ends the waiting for the first answer to a request.
func (f *finalizing) answered(r *request) {
	if !r.awaited {
		return
	}
	r.awaited = false
	if f.awaited--; f.awaited == 0 {
		f.starting = false
		close(f.settled)
	}
}

// leaveClaims ends the claims of objects that the binding does not select any more. One that is in flight is undone by its answer.
func (m *monitor) leaveClaims(which func(*request) bool) {
	if m.finalizing == nil {
		return
	}
	for _, r := range m.finalizing.claims {
		if which(r) {
			r.left = true
			m.unclaim(r)
		}
	}
}

// activate adds the finalizer to the objects so far. From now on no other object is delivered without it. It does nothing for a binding that has
// ended meanwhile.
func (m *monitor) activate() (active bool) {
	f := m.finalizing
	m.update(func() {
		if active = !m.muted && !m.ended; !active {
			return
		}
		f.active, f.starting, f.trouble, f.known = true, true, "", map[string]bool{}
		var lacking []item
		m.items.Scan(func(_ string, it item) bool {
			f.meet(it.object.uid)
			if !it.object.terminating() && !it.object.has(f.name) {
				lacking = append(lacking, it)
			}
			return true
		})
		f.awaited = 1
		for _, it := range lacking {
			m.claim(it.from, it.object, time.Time{}).awaited = true
			f.awaited++
		}
		f.answered(&request{awaited: true})
	})
	return active
}

// next returns a request to send, or the time until one is due; 0 means to wait for a signal. The object is that of this moment.
func (m *monitor) next(now time.Time) (r *request, o kube.Finalized, wait time.Duration) {
	f := m.finalizing
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.ended && f.queue.Len() > 0 && f.flying < finalizersInFlight {
		r := f.queue[0]
		if r.due.After(now) {
			return nil, o, r.due.Sub(now)
		}
		heap.Pop(&f.queue)
		switch {
		case r.left || r.superseded:
		case !r.remove && f.paused.After(now):
			f.push(r, f.paused)
		default:
			f.flying++
			return r, r.object, 0
		}
	}
	return nil, o, 0
}

// dispatch sends requests until ctx ends, or the binding, and those in flight have been answered.
func (m *monitor) dispatch(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		r, o, wait := m.next(time.Now())
		if r != nil {
			sending.Go(func() {
				m.transmit(ctx, r, o)
				m.landed()
			})
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-m.finalizing.wake:
		case <-due:
		case <-m.finalizing.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (m *monitor) landed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finalizing.flying--
	m.finalizing.signal()
	m.finalizing.rest(m.ended)
}

// rest notes that no request is in flight after the end of the binding.
func (f *finalizing) rest(ended bool) {
	if ended && f.flying == 0 {
		close(f.idle)
	}
}

// transmit sends a request and handles its answer.
func (m *monitor) transmit(ctx context.Context, r *request, o kube.Finalized) {
	if r.remove {
		text, err := m.finalizing.remove(ctx, o)
		if ctx.Err() == nil || err == nil {
			m.finalizerRemoved(r, text, err)
		}
		return
	}
	text, err := m.finalizing.add(ctx, o)
	if ctx.Err() == nil || err == nil {
		m.finalizerAdded(ctx, r, text, err)
	}
}

// finalizerAdded handles the answer to a claim: the object reaches the binding.
func (m *monitor) finalizerAdded(ctx context.Context, r *request, text []byte, err error) {
	f := m.finalizing
	var e entry
	if err == nil {
		m.mu.Lock()
		sub := r.sub
		m.mu.Unlock()
		e, err = m.digest(ctx, sub, text)
	}
	m.update(func() {
		switch {
		case f.halted && err == nil:
			m.requestRemoval(e.object)
			return
		case m.ended || m.muted:
			return
		}
		f.allowed(m, err)
		switch {
		case r.left && err == nil && e.object.has(f.name) && !e.object.terminating():
			m.requestRemoval(e.object) // it left while the finalizer was added
		case r.left || r.superseded:
		case r.sub.left:
			m.unclaim(r) // the list of the subscription that replaces it has the object
		case err == nil:
			m.unclaim(r)
			m.put(r.sub, e)
		case apierrors.IsNotFound(err):
			m.unclaim(r) // the watch reports the deletion
		case kube.IsPermissionMissing(err):
			m.refused(r)
		default:
			r.failures, r.err = r.failures+1, err.Error()
			if r.awaited {
				m.leaveOut(r)
				f.answered(r)
			}
			m.logFailure("Cannot add the finalizer, the object is not delivered until then", r)
			f.push(r, time.Now().Add(r.delay()))
		}
	})
}

// digest makes an entry of the object in an answer.
func (m *monitor) digest(ctx context.Context, sub *subscription, text []byte) (entry, error) {
	keep := true
	if sub.stream != nil {
		keep = sub.stream.scope.keepManagedFields
	} else if k := m.binding.KeepManagedFields; k != nil {
		keep = *k
	}
	d := &digester{indexer: newIndexer(keep), ctx: ctx, subs: func(uint64) []*subscription { return []*subscription{sub} }}
	a, err := d.digest(bytes.TrimSpace(text), false) // an answer ends with a newline
	if err != nil {
		return entry{}, err
	}
	var decoder jq.Decoder
	e, ok := sub.entry(ctx, a, 0, &decoder)
	if !ok {
		return entry{}, fmt.Errorf("the binding has left the stream of the object")
	}
	return e, nil
}

// leaveOut removes an object that could not get the finalizer before the Synchronization. It is Added later.
func (m *monitor) leaveOut(r *request) {
	if it, ok := m.items.Get(r.key); ok && it.object.uid == r.object.UID {
		m.items.Delete(r.key)
		delete(m.keys, r.key)
	}
}

// refused pauses the requests and the events of the binding: the permission is missing.
func (m *monitor) refused(r *request) {
	f := m.finalizing
	f.forbidden = fmt.Sprintf("no permission to add the finalizer %s: %s", f.name, f.rule(r))
	f.paused = time.Now().Add(forbiddenDelay)
	if !m.blocked {
		m.blocked = true
		m.logLater(slog.LevelError, "Cannot add the finalizer, the binding delivers nothing until then", "error", f.forbidden)
	}
	f.push(r, f.paused)
}

// allowed ends the pause after an answer that was not the missing permission.
func (f *finalizing) allowed(m *monitor, err error) {
	if f.forbidden == "" || kube.IsPermissionMissing(err) {
		return
	}
	m.logLater(slog.LevelInfo, "The finalizer can be added again")
	f.forbidden, f.paused, m.blocked = "", time.Time{}, false
	for _, r := range f.queue {
		if !r.remove {
			r.due = time.Time{}
		}
	}
	heap.Init(&f.queue)
	f.signal()
}

func (r *request) delay() time.Duration {
	return min(maxFinalizerDelay, minFinalizerDelay<<min(r.failures-1, 10))
}

func (m *monitor) logFailure(message string, r *request) {
	if r.failures == 1 { // `why` shows later ones
		m.logLater(slog.LevelError, message, "namespace", r.object.Namespace, "name", r.object.Name, "error", r.err)
	}
}

// rule is the permission that is missing.
func (f *finalizing) rule(r *request) string {
	namespace := ""
	if f.resource.Namespaced {
		namespace = r.object.Namespace
	}
	return kube.Grant(namespace, kube.Rule{Group: f.resource.Group, Resource: f.resource.Resource, Verbs: []string{"get", "list", "watch", "patch"}})
}

// requestRemoval removes the finalizer of an object in the background.
func (m *monitor) requestRemoval(o *object) {
	f := m.finalizing
	f.push(&request{remove: true, key: o.key, object: f.object(o)}, time.Time{})
}

// finalizerRemoved handles the answer to a removal.
func (m *monitor) finalizerRemoved(r *request, text []byte, err error) {
	var last *object
	if err == nil {
		last, _, _ = newIndexer(true).scan(text)
	}
	m.locked(func() { m.afterRemoval(r, last, err) })
}

// afterRemoval notes that a finalizer has been removed; last is the object then. If that failed, it requests it again.
func (m *monitor) afterRemoval(r *request, last *object, err error) {
	f := m.finalizing
	switch {
	case err == nil || apierrors.IsNotFound(err):
		if err == nil {
			m.logLater(slog.LevelInfo, "Finalizer removed", "finalizer", f.name, "namespace", r.object.Namespace, "name", r.object.Name)
		}
		if it, ok := m.items.Get(r.key); ok && it.object.uid == r.object.UID {
			f.removed[r.object.UID] = true
		} else {
			delete(f.deleting, r.object.UID)
			if last != nil {
				f.floors[r.key] = floor{r.object.UID, version(last.resourceVersion)}
			}
		}
		return
	case m.ended:
		return
	}
	r.failures, r.err = r.failures+1, err.Error()
	delay := r.delay()
	if kube.IsPermissionMissing(err) {
		r.err, delay = fmt.Sprintf("no permission to remove the finalizer %s: %s", f.name, f.rule(r)), forbiddenDelay
	}
	m.logFailure("Cannot remove the finalizer", r)
	f.push(r, time.Now().Add(delay))
}

// startsDeleting decides about a state of an object that is being deleted: the first one with the finalizer is delivered as Deleting, when the
// Synchronization has been delivered; others are not.
func (m *monitor) startsDeleting(watch event.Watch, e entry) {
	f, o := m.finalizing, e.object
	switch {
	case !o.has(f.name):
		m.undelivered(watch, e, "the object is being deleted and does not have the finalizer of the binding")
	case !m.unlocked:
		m.undelivered(watch, e, "Deleting follows the Synchronization")
	case f.deleting[o.uid]:
		m.undelivered(watch, e, "Deleting has been delivered, later changes of the object are not")
	case !f.active:
		m.undelivered(watch, e, "finalizers are not set")
	default:
		f.deleting[o.uid] = true
		m.fired = append(m.fired, fired{watch: event.Deleting, entry: e, release: true})
	}
}

// keepFinalizer keeps the finalizer of an object after a run with its Deleting, if the binding has it still. A binding that is replaced delivers nothing
// again: the object is in the next Synchronization.
func (m *monitor) keepFinalizer(o event.Object) (kept, again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it, ok := m.items.Get(objectKey(o.Namespace, o.Name))
	switch {
	case m.muted || m.ended:
		return true, false
	case !ok || it.object.uid != o.UID || !it.object.has(m.finalizing.name):
		return false, false
	}
	m.finalizing.kept[o.UID] = true
	return true, true
}

// deliverDeleting delivers Deleting again of an object whose finalizer was kept.
func (m *monitor) deliverDeleting(o event.Object) {
	f, key := m.finalizing, objectKey(o.Namespace, o.Name)
	m.update(func() {
		it, ok := m.items.Get(key)
		if !ok || it.object.uid != o.UID || !f.kept[o.UID] || m.muted || m.ended {
			return
		}
		delete(f.kept, o.UID)
		delete(f.deleting, o.UID)
		m.fire(event.Modified, entry{it.object, it.filtered, m.keys[key]})
	})
}

// finalized describes the object of an event.
func (m *monitor) finalized(o event.Object) kube.Finalized {
	m.mu.Lock()
	defer m.mu.Unlock()
	return kube.Finalized{Resource: m.finalizing.resource, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

// isUnannounced reports whether an object that is new in an unlocked binding makes no event: it is being deleted, and there is nothing to clean up,
// or that has been requested before the object left the selectors, and Deleted has followed.
func (f *finalizing) isUnannounced(o *object) bool {
	return f.active && o.terminating() && (!o.has(f.name) || f.deleting[o.uid])
}

// forget drops what is known of an object whose finalizer has been removed.
func (f *finalizing) forget(uid string) {
	if f.removed[uid] {
		delete(f.removed, uid)
		delete(f.deleting, uid)
		delete(f.kept, uid)
	}
}

// fireLeft delivers that an object is gone, or has left the selectors of the binding with its finalizer.
func (m *monitor) fireLeft(e entry) {
	f, n := m.finalizing, len(m.fired)
	defer delete(f.kept, e.object.uid)
	m.fire(event.Deleted, e)
	switch {
	case !m.binding.Deleted && (!f.deleting[e.object.uid] || f.kept[e.object.uid]):
		m.requestRemoval(e.object)
	case len(m.fired) > n && m.fired[n].undelivered == "":
		m.fired[n].release = true
	}
}

// dropFinalized decides about an item that is dropped. It returns false if that is an event like any other.
func (m *monitor) dropFinalized(it item, e entry) bool {
	f, uid := m.finalizing, it.object.uid
	switch {
	case f.removed[uid]:
		f.forget(uid)
		return false
	case !f.active || m.muted || !it.object.has(f.name):
		delete(f.kept, uid)
		return false
	case !m.unlocked: // it may come back and leave again: one Deleted tells of it
		f.left = append(slices.DeleteFunc(f.left, func(e entry) bool { return e.object.uid == uid }), e)
	default:
		m.fireLeft(e)
	}
	return true
}

// fireDelayed delivers what had to wait for the Synchronization.
func (m *monitor) fireDelayed() {
	f := m.finalizing
	if f == nil {
		return
	}
	m.items.Scan(func(key string, it item) bool {
		if it.object.terminating() {
			m.fire(event.Modified, entry{it.object, it.filtered, m.keys[key]})
		}
		return true
	})
	left := f.left
	f.left = nil
	for _, e := range left {
		if it, ok := m.items.Get(e.object.key); !ok || it.object.uid != e.object.uid {
			m.fireLeft(e)
		}
	}
}

// release removes the finalizer of an object after a successful run. It tries once, then in the background.
func (m *monitor) release(ctx context.Context, ev *event.Event) {
	f, o := m.finalizing, ev.Object
	m.mu.Lock()
	r := &request{remove: true, key: objectKey(o.Namespace, o.Name), object: kube.Finalized{Resource: f.resource, Namespace: o.Namespace, Name: o.Name, UID: o.UID}}
	it, ok := m.items.Get(r.key)
	present := ok && it.object.uid == o.UID
	if present {
		r.object.Finalizers = it.object.finalizers()
	}
	m.mu.Unlock()
	if present && ev.Watch == event.Deleted && !it.unannounced {
		return // it has come back: another event follows
	}
	m.transmit(ctx, r, r.object)
}

// halt stops the events of the binding, and adds no finalizer any more. It removes that of objects which are newer than a version.
func (m *monitor) halt(reason string, than uint64) {
	f := m.finalizing
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.trouble = reason; !f.active {
		return
	}
	m.leaveClaims(func(*request) bool { return true })
	m.held, m.muted, f.left, f.halted = event.Log{}, true, nil, true
	m.items.Scan(func(_ string, it item) bool {
		if it.object.has(f.name) && version(it.object.resourceVersion) > than {
			m.requestRemoval(it.object)
		}
		return true
	})
}

// troubles are why objects lack the finalizer, or keep it.
func (f *finalizing) troubles() (texts []string) {
	if f == nil {
		return nil
	}
	for _, text := range []string{f.trouble, f.forbidden, f.unfound} {
		if text != "" {
			texts = append(texts, text)
		}
	}
	var adding, removing []*request
	for _, r := range f.queue {
		switch {
		case r.failures == 0 || r.left || r.superseded:
		case r.remove:
			removing = append(removing, r)
		default:
			adding = append(adding, r)
		}
	}
	if len(adding) > 0 {
		texts = append(texts, fmt.Sprintf("%d objects wait for the finalizer %s: %s", len(adding), f.name, adding[0].err))
	}
	if len(removing) > 0 {
		texts = append(texts, fmt.Sprintf("%d objects keep the finalizer %s: %s", len(removing), f.name, removing[0].err))
	}
	return texts
}
