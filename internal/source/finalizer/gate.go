// Package finalizer adds the finalizers of bindings to their objects, delivers Deleting, and removes the finalizers after runs. A gate is
// the watch.Guard of a binding with a finalizer.
//
// Callers may rely on this:
//   - No object reaches a binding before it has the finalizer, unless it is being deleted.
//   - No object loses the finalizer without a successful run with its Deleting, or with its Deleted if it has left the selectors. A binding
//     without Deleted releases it immediately.
//   - An object that comes back before its finalizer is removed keeps it, or gets it again before it is Added.
//   - Deleting is delivered once for each object, and again only if a run has kept the finalizer.
//   - Requests that fail are repeated, with a delay, until they succeed or the binding ends; Troubles has the last errors.
//
// Not attempted: finalizers of other clients. Package watch has the locks and the goroutines.
package finalizer

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

var _ watch.Guard = (*gate)(nil)

// gate is in front of the objects of a binding with a finalizer. An object that lives and lacks the finalizer waits outside, the gate
// requests the finalizer, and the object passes when the watch delivers it with the finalizer. The lock of the binding guards the fields,
// and is held by the callers of all methods but those that send requests; no lock is held during a request.
type gate struct {
	Options
	name    string
	binding *watch.Shelf
	// add and remove send a request. The answer to remove is the object.
	add    func(context.Context, kube.Finalized) error
	remove func(context.Context, kube.Finalized) ([]byte, error)
	// todo has the requests to send. It is nil before the gate is closed for the first time. idle is closed when serve has ended.
	todo  requests
	idle  chan struct{}
	phase gatePhase
	ended bool // of the binding
	// lacking are the objects that wait, by key. removals are the removals that have not succeeded.
	lacking  map[string]*change
	removals map[finalizerChange]*change
	// awaited is the number of objects of the initial list that the end of gateStarting waits for; settled is closed then.
	awaited int
	settled chan struct{}
	// floors are the versions, by key, after the removal of the finalizer, until all watches have passed them: older states are outdated.
	floors map[string]floor
	// paused: the permission to add the finalizer was missing, no request to add one is sent before.
	paused time.Time
	// trouble is why the binding cannot have its finalizer.
	trouble string

	deletions
}

// gatePhase is the state of a gate.
//
//	open → starting → closed
//
// It opens again when the hook is replaced, and is halted by an uninstall.
type gatePhase int

const (
	// gateOpen: objects pass as they are, on a standby and until their list is complete.
	gateOpen gatePhase = iota
	// gateStarting: the objects of the initial list get the finalizer, or it has been tried. They are visible meanwhile, and make no events.
	gateStarting
	gateClosed
	// gateHalted: objects pass, and a finalizer whose request was in flight is removed again.
	gateHalted
)

func (g *gate) closed() bool { return g.phase == gateStarting || g.phase == gateClosed }

// finalizerChange identifies a change of an object's finalizers.
type finalizerChange struct {
	key, uid string
	remove   bool
}

type requests = workqueue.TypedRateLimitingInterface[finalizerChange]

// change adds or removes the finalizer of an object.
type change struct {
	finalizerChange
	object kube.Finalized
	// err is the last failure. sending: a request to remove the finalizer is in flight.
	err     string
	sending bool

	// The others are of an object that waits. sub delivered it. awaited: the end of gateStarting waits for it. added: the request has been
	// answered, the watch follows. left: the binding no longer selects it.
	sub                  *stream.Subscription
	awaited, added, left bool
	// since is the version in which it came.
	since uint64
}

type floor struct {
	uid     string
	version uint64
}

const (
	// finalizersInFlight bounds the requests of a binding that are in flight.
	finalizersInFlight = 16
	// forbiddenDelay is the time between requests while the permission is missing.
	forbiddenDelay = 30 * time.Second
	// regainDelay is the time before a finalizer is added again that another client has removed from an object that lives: the two do not
	// fight at full speed.
	regainDelay = time.Second
	// The delay after a failed request doubles between these.
	minFinalizerDelay, maxFinalizerDelay = 500 * time.Millisecond, time.Minute
)

// Gate returns the gate of a binding with a finalizer.
func (o Options) Gate(b *watch.Shelf) watch.Guard { return o.gate(b) }

func (o Options) gate(b *watch.Shelf) *gate {
	h, index := b.Of()
	name := h.Kubernetes[index].Finalizer
	return &gate{
		Options: o, name: name, binding: b,
		add: func(ctx context.Context, of kube.Finalized) error {
			_, err := kube.AddFinalizer(ctx, o.Changes, of, name, o.Manager)
			return err
		},
		remove: func(ctx context.Context, of kube.Finalized) ([]byte, error) {
			return kube.RemoveFinalizer(ctx, o.Changes, of, name)
		},
		idle: make(chan struct{}), settled: make(chan struct{}), lacking: map[string]*change{}, removals: map[finalizerChange]*change{},
		floors: map[string]floor{}, deletions: deletions{fates: map[string]fate{}, unannounced: map[string]bool{}},
	}
}

// newRequests returns a queue with a goroutine, which ShutDown ends.
func newRequests() requests {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[finalizerChange](minFinalizerDelay,
		maxFinalizerDelay))
}

// Admit returns false for an object that has to get the finalizer before.
func (g *gate) Admit(sub *stream.Subscription, o *stream.Object, has bool) bool {
	switch {
	case !g.closed():
	case o.Terminating() || o.HasFinalizer(g.name):
		if l := g.lacking[o.Key]; l != nil {
			g.endWait(l)
		}
		if o.HasFinalizer(g.name) && g.fates[o.UID] == removed && stream.ParseVersion(o.ResourceVersion) != 0 {
			delete(g.fates, o.UID) // it has been added again since
		}
		if !has && g.binding.Open() && g.isUnannounced(o) {
			g.unannounced[o.UID] = true
		}
	default:
		delay := time.Duration(0)
		if has {
			delay = regainDelay
		}
		g.requestAddition(sub, o, delay)
		return false
	}
	g.noteKnown(o.UID)
	return true
}

// Outdated reports whether a state is older than the removal of the finalizer.
func (g *gate) Outdated(o *stream.Object) bool { return g.closed() && (g.outdated(o) || g.isLosing(o)) }

// outdated reports whether a state is older than the removal of the finalizer, and forgets removals that all watches have passed.
func (g *gate) outdated(o *stream.Object) bool {
	if len(g.floors) == 0 {
		return false
	}
	maps.DeleteFunc(g.floors, func(_ string, f floor) bool { return g.binding.Passed(f.version) })
	v, last := stream.ParseVersion(o.ResourceVersion), g.floors[o.Key]
	return last.uid == o.UID && v != 0 && v < last.version
}

// isLosing reports whether an object that lives has a finalizer that a request in flight removes: it has left the selectors and come back.
func (g *gate) isLosing(o *stream.Object) bool {
	return g.isRemoving(o.Key, o.UID) && !o.Terminating() && o.HasFinalizer(g.name)
}

func (g *gate) isRemoving(key, uid string) bool {
	c := g.removals[finalizerChange{key: key, uid: uid, remove: true}]
	return c != nil && c.sending
}

// requestAddition requests the finalizer for an object.
func (g *gate) requestAddition(sub *stream.Subscription, o *stream.Object, delay time.Duration) *change {
	l := g.lacking[o.Key]
	switch {
	case l == nil:
	case l.uid == o.UID:
		l.sub, l.object.Finalizers = sub, o.Finalizers()
		if l.added { // and lost again
			l.added = false
			g.todo.Add(l.finalizerChange)
		}
		return l
	default:
		g.stopWaiting(l)
	}
	g.noteKnown(o.UID)
	l = &change{
		finalizerChange: finalizerChange{key: o.Key, uid: o.UID}, sub: sub, object: g.finalized(o),
		since: stream.ParseVersion(o.ResourceVersion),
	}
	g.lacking[o.Key] = l
	g.todo.AddAfter(l.finalizerChange, delay)
	return l
}

func (g *gate) finalized(o *stream.Object) kube.Finalized {
	return kube.Finalized{Resource: g.binding.Resource(), Namespace: o.Namespace, Name: o.Name, UID: o.UID, Finalizers: o.Finalizers()}
}

// endWait ends the waiting of an object.
func (g *gate) endWait(l *change) {
	delete(g.lacking, l.key)
	g.countAwaited(l)
}

// countAwaited notes that an object of the initial list has, or may not have, the finalizer.
func (g *gate) countAwaited(l *change) {
	if !l.awaited {
		return
	}
	l.awaited = false
	if g.awaited--; g.awaited == 0 {
		if g.phase == gateStarting {
			g.phase = gateClosed
		}
		close(g.settled)
	}
}

// stopWaiting ends the waiting of an object that the binding no longer selects, or that is gone. The finalizer is removed if it has been
// added, or is added by a request in flight.
func (g *gate) stopWaiting(l *change) {
	if g.endWait(l); l.added {
		g.requestRemoval(l.object)
	}
	l.left = true
}

// Withdraw ends the waiting of objects that are gone.
func (g *gate) Withdraw(gone func(key string, from *stream.Subscription) bool) {
	for _, l := range g.lacking {
		if gone(l.key, l.sub) {
			g.stopWaiting(l)
		}
	}
}

// close requests the finalizer for the objects so far. From now on no other object passes without it. It does nothing for a binding that
// has ended meanwhile.
func (g *gate) close(todo requests) (closed bool) {
	g.binding.Update(func() {
		if closed = !g.binding.Muted(); !closed {
			return
		}
		g.todo, g.phase, g.trouble, g.known, g.awaited = todo, gateStarting, "", map[string]bool{}, 1
		g.binding.Each(func(e stream.Digested, from *stream.Subscription) {
			if g.noteKnown(e.Object.UID); !e.Object.Terminating() && !e.Object.HasFinalizer(g.name) {
				g.requestAddition(from, e.Object, 0).awaited = true
				g.awaited++
			}
		})
		g.countAwaited(&change{awaited: true})
	})
	return closed
}

// open lets objects pass as they are, and ends all waiting. Finalizers that have been added stay, unless it is halted: the next version
// of the hook has them, too.
func (g *gate) open(phase gatePhase) {
	for _, l := range g.lacking {
		if phase == gateHalted {
			g.stopWaiting(l)
		}
		g.endWait(l)
	}
	if g.phase != gateHalted {
		g.phase = phase
	}
}

// Muted opens the gate: the next version of the hook adds the finalizer.
func (g *gate) Muted() { g.open(gateOpen) }

// Ended ends the requests, so that no object gets a finalizer without a record.
func (g *gate) Ended() (idle <-chan struct{}) {
	if g.ended = true; g.todo == nil {
		return nil
	}
	g.todo.ShutDown()
	return g.idle
}

// serve sends requests until ctx ends, or the binding, and those in flight have been answered.
func (g *gate) serve(ctx context.Context) {
	todo := g.todo
	defer close(g.idle)
	defer context.AfterFunc(ctx, todo.ShutDown)()
	var sending sync.WaitGroup
	defer sending.Wait()
	slots := make(chan struct{}, finalizersInFlight)
	for {
		slots <- struct{}{}
		r, down := todo.Get()
		switch {
		case down:
			return
		case todo.ShuttingDown(): // the binding has ended
			todo.Done(r)
			<-slots
			continue
		}
		sending.Go(func() {
			g.transmit(ctx, r)
			todo.Done(r)
			<-slots
		})
	}
}

// transmit sends a request, if it is due still, and handles its answer.
func (g *gate) transmit(ctx context.Context, r finalizerChange) {
	var c *change
	var o kube.Finalized
	var pause time.Duration
	g.binding.Look(func() {
		if c, pause = g.due(r), time.Until(g.paused); c != nil {
			o = c.object
		}
	})
	switch {
	case c == nil:
	case r.remove:
		if text, err := g.remove(ctx, o); err == nil || ctx.Err() == nil {
			g.answeredRemoval(c, text, err)
		}
	case pause > 0:
		g.todo.AddAfter(r, pause)
	default:
		if err := g.add(ctx, o); err == nil || ctx.Err() == nil {
			g.binding.Update(func() { g.answeredAdd(c, err) })
		}
	}
}

// due returns the change of a request that is sent now, or nil if it is no longer needed.
func (g *gate) due(r finalizerChange) *change {
	c := g.lacking[r.key]
	switch {
	case r.remove && g.hasAgain(r):
		delete(g.removals, r)
	case r.remove:
		if c = g.removals[r]; c != nil {
			c.sending = true
		}
		return c
	case g.isRemoving(r.key, r.uid): // the answer makes it due
	case c != nil && c.finalizerChange == r && !c.added && !g.ended:
		return c
	}
	return nil
}

// hasAgain reports whether an object has come back before its finalizer is removed: it needs it.
func (g *gate) hasAgain(r finalizerChange) bool {
	e, ok := g.binding.Get(r.key)
	present := ok && e.Object.UID == r.uid && !e.Object.Terminating()
	l := g.lacking[r.key]
	return g.closed() && g.fates[r.uid] == 0 && (present || l != nil && l.uid == r.uid)
}

// answeredAdd handles the answer to a request to add the finalizer.
func (g *gate) answeredAdd(c *change, err error) {
	switch undo := g.phase == gateHalted || c.left && !g.binding.Muted(); {
	case undo && err == nil:
		g.requestRemoval(c.object)
		return
	case g.binding.Muted():
		return
	}
	switch {
	case g.lacking[c.key] != c: // the watch was faster
	case err == nil:
		c.added, c.err = true, ""
		g.todo.Forget(c.finalizerChange)
	case apierrors.IsNotFound(err): // the watch reports the deletion
		g.leaveOut(c)
	case kube.IsPermissionMissing(err):
		c.err = g.missing("no permission to add the finalizer", c)
		if time.Since(g.paused) > forbiddenDelay { // and not for each object, or each attempt
			g.binding.Log(slog.LevelError, "Cannot add the finalizer, objects are not delivered until then", "error", c.err)
		}
		g.paused = time.Now().Add(forbiddenDelay)
		g.todo.AddAfter(c.finalizerChange, forbiddenDelay)
	default:
		g.failed(c, "Cannot add the finalizer, the object is not delivered until then", err.Error())
		g.todo.AddRateLimited(c.finalizerChange)
		g.leaveOut(c)
	}
}

// leaveOut leaves an object of the initial list out of the Synchronization: it is Added later, if it gets the finalizer.
func (g *gate) leaveOut(c *change) {
	if c.awaited {
		g.binding.Forget(c.key)
		g.countAwaited(c)
	}
}

// failed notes a failure, and logs the first one of a change; `why` shows later ones.
func (g *gate) failed(c *change, message, problem string) {
	if c.err == "" {
		g.binding.Log(slog.LevelError, message, "namespace", c.object.Namespace, "name", c.object.Name, "error", problem)
	}
	c.err = problem
}

// missing adds the permission that a change needs to a problem.
func (g *gate) missing(problem string, c *change) string {
	res, namespace := g.binding.Resource(), c.object.Namespace
	if !res.Namespaced {
		namespace = ""
	}
	rule := kube.Rule{Group: res.Group, Resource: res.Resource, Verbs: []string{"get", "list", "watch", "patch"}}
	return fmt.Sprintf("%s %s: %s", problem, g.name, kube.Grant(namespace, rule))
}

// requestRemoval removes the finalizer of an object in the background.
func (g *gate) requestRemoval(o kube.Finalized) { g.todo.Add(g.removal(o)) }

func (g *gate) removal(o kube.Finalized) finalizerChange {
	r := finalizerChange{key: stream.KeyOf(o.Namespace, o.Name), uid: o.UID, remove: true}
	g.removals[r] = &change{finalizerChange: r, object: o}
	return r
}

// answeredRemoval notes that a finalizer has been removed; last is the object then. If that failed, it is repeated.
func (g *gate) answeredRemoval(c *change, text []byte, err error) {
	var last *stream.Object
	if err == nil {
		last, _ = stream.Read(text, true)
	}
	g.binding.Look(func() {
		c.sending = false
		if l := g.lacking[c.key]; l != nil && l.uid == c.uid {
			g.todo.Add(l.finalizerChange)
		}
		switch {
		case err == nil || apierrors.IsNotFound(err):
			if err == nil {
				g.binding.Log(slog.LevelInfo, "Finalizer removed", "finalizer", g.name, "namespace", c.object.Namespace, "name", c.object.Name)
			}
			delete(g.removals, c.finalizerChange)
			if g.todo != nil { // a user may release an object on a standby, too
				g.todo.Forget(c.finalizerChange)
			}
			g.lostFinalizer(c.finalizerChange, last)
		case g.todo == nil: // the gate was never closed
			g.failed(c, "Cannot remove the finalizer", err.Error())
			delete(g.removals, c.finalizerChange)
		case g.ended:
			delete(g.removals, c.finalizerChange)
		case kube.IsPermissionMissing(err):
			g.failed(c, "Cannot remove the finalizer", g.missing("no permission to remove the finalizer", c))
			g.todo.AddAfter(c.finalizerChange, forbiddenDelay)
		default:
			g.failed(c, "Cannot remove the finalizer", err.Error())
			g.todo.AddRateLimited(c.finalizerChange)
		}
	})
}

// halt stops the events of the binding, and adds no further finalizers. It removes the finalizer of objects that are newer than a version.
func (g *gate) halt(reason string, than uint64) {
	g.binding.Look(func() {
		if g.trouble = reason; !g.closed() {
			return
		}
		g.open(gateHalted)
		g.binding.Halt()
		g.left = nil
		g.binding.Each(func(e stream.Digested, _ *stream.Subscription) {
			if e.Object.HasFinalizer(g.name) && stream.ParseVersion(e.Object.ResourceVersion) > than {
				g.requestRemoval(g.finalized(e.Object))
			}
		})
	})
}

// Lacks reports whether an object waits for the finalizer, Marks whether it has the finalizer.
func (g *gate) Lacks(key string) bool       { return g.lacking[key] != nil }
func (g *gate) Marks(o *stream.Object) bool { return o.HasFinalizer(g.name) }

// Lags reports whether an object waits for the finalizer that came up to a version, unless its request fails.
func (g *gate) Lags(version uint64, by func(*stream.Subscription) bool) bool {
	if time.Now().Before(g.paused) {
		return false
	}
	for _, l := range g.lacking {
		if l.err == "" && l.since <= version && by(l.sub) {
			return true
		}
	}
	return false
}

// Troubles are why objects lack the finalizer, or keep it.
func (g *gate) Troubles() (texts []string) {
	for _, text := range []string{g.trouble, g.unfound} {
		if text != "" {
			texts = append(texts, text)
		}
	}
	for _, kind := range []struct {
		text    string
		changes iter.Seq[*change]
	}{{"objects wait for the finalizer", maps.Values(g.lacking)}, {"objects keep the finalizer", maps.Values(g.removals)}} {
		var errs []string
		for c := range kind.changes {
			if c.err != "" {
				errs = append(errs, c.err)
			}
		}
		if len(errs) > 0 {
			texts = append(texts, fmt.Sprintf("%d %s %s: %s", len(errs), kind.text, g.name, slices.Min(errs)))
		}
	}
	return texts
}
