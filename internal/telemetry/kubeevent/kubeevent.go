// Package kubeevent publishes Kubernetes Events: those that hooks request, and those about failing hooks, on the operator's Pod and on
// objects for which no attempt is left.
//
// Callers may rely on this:
//   - Nothing waits for the API server: what happens is counted, and Run sends it.
//   - Repetitions within ten minutes count in the same Event, which is written at most once a minute. Equal are Events with the same
//     object, type, reason, action and note. Of the operator's own there is one for each hook that fails, one for each that has recovered,
//     and one for tasks without an attempt left.
//   - Of the Events that hooks request about an object, ten are published, then one a minute. The others are dropped and counted, as those
//     that the API server rejects.
//   - Without the permission to write Events in a namespace there is one warning.
//
// It does not use the recorders of client-go: they join what is about one object whatever its note is, and with them come the typed clients
// of all APIs. The limiter of tools/record.EventCorrelator would replace 15 lines by as many that make core/v1 Events, and links 38 more
// packages.
package kubeevent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Options of a Recorder. Client, Instance and Log are required.
type Options struct {
	Client rest.Interface
	// Instance reports the Events if there is no Pod.
	Instance string
	// Pod is the operator's own Pod. Without a Name it has no Events.
	Pod Reference
	// NoFailures publishes nothing about failing hooks.
	NoFailures bool
	// Dropped, if set, receives the hook of an Event that is not published. It is called with a lock held.
	Dropped func(hook string)
	Log     *slog.Logger
}

// Reference names an object. The Namespace is empty for an object without one. The UID may be empty: then it is read from the API server,
// because kubectl describe finds Events by it.
type Reference = corev1.ObjectReference

// Event is something that happened to an object.
type Event struct {
	Regarding Reference
	// Type is Normal or Warning.
	Type, Reason, Action, Note string
}

const (
	// seriesWindow is the time in which an Event is continued after its last occurrence.
	seriesWindow = 10 * time.Minute
	// writeInterval is the least time between two writes of an Event.
	writeInterval = time.Minute
	// retryDelay is the time after which a write that failed is retried.
	retryDelay = 10 * time.Second
	// burst is the number of Events about an object that hooks may publish immediately; one more each refill.
	burst, refill = 10, time.Minute
	// maxTracked bounds the Events and the objects that are remembered.
	maxTracked = 10_000
)

// Recorder counts what happens.
type Recorder struct {
	opts Options
	send func(context.Context, *line) error
	// woken has a token when there may be something to send.
	woken chan struct{}

	mu    sync.Mutex
	lines map[series]*line
	// created is the number of lines so far.
	created int
	// limits bound the Events of hooks about each object.
	limits map[Reference]*rate.Limiter
	// failing are the queues in which a hook fails now.
	failing map[string]map[string]bool
	// mute are the namespaces without permission.
	mute  map[string]bool
	swept time.Time
}

// series has the common part of equal Events. by is the hook for those about the operator's Pod, whose notes differ.
type series struct {
	Event
	by string
}

// New returns a Recorder. The API server need not be reachable yet.
func New(o Options) *Recorder {
	r := newRecorder(o)
	r.send = newSender(o).send
	return r
}

func newRecorder(o Options) *Recorder {
	return &Recorder{
		opts: o, woken: make(chan struct{}, 1), lines: map[series]*line{}, limits: map[Reference]*rate.Limiter{},
		failing: map[string]map[string]bool{}, mute: map[string]bool{},
	}
}

// Record receives an Event that a hook requests.
func (r *Recorder) Record(hook string, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.record(hook, e) {
		r.drop(hook)
	}
}

// drop counts an Event that is not published, unless it is one of our own.
func (r *Recorder) drop(hook string) {
	if hook != "" && r.opts.Dropped != nil {
		r.opts.Dropped(hook)
	}
}

// record reports whether the Event is within the limits. It requires mu.
func (r *Recorder) record(hook string, e Event) bool {
	now := time.Now()
	about := e.Regarding
	about.UID = "" // a recreated object has no limit of its own
	limit := r.limits[about]
	if limit == nil {
		if r.sweep(now); len(r.limits) >= maxTracked {
			return false
		}
		limit = rate.NewLimiter(rate.Every(refill), burst)
		r.limits[about] = limit
	}
	return !r.mute[e.namespace()] && limit.AllowN(now, 1) && r.add(series{Event: e}, e.Note, hook)
}

// Failed receives a run that failed and will be retried. The note is public: anyone who can read Events sees it.
func (r *Recorder) Failed(hook, queue, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing[hook] == nil {
		r.failing[hook] = map[string]bool{}
	}
	r.failing[hook][queue] = true
	r.own(hook, "Warning", "HookFailed", note)
}

// Exhausted receives a task that failed for the last time. The note is public, as for Failed.
func (r *Recorder) Exhausted(hook, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own(hook, "Warning", "RetriesExhausted", note)
}

// ExhaustedFor publishes the same about the object of the task. Without an APIVersion, that which the API server prefers for the kind is
// published.
func (r *Recorder) ExhaustedFor(object Reference, note string) {
	if r.opts.NoFailures {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record("", Event{Regarding: object, Type: "Warning", Reason: "RetriesExhausted", Action: "RunHook", Note: note})
}

// Succeeded receives a run that succeeded. A hook has recovered when it fails in no queue; fails reports whether it does so in another lane
// of this one.
func (r *Recorder) Succeeded(hook, queue string, fails func() bool) {
	r.mu.Lock()
	failing := r.failing[hook][queue]
	r.mu.Unlock()
	if !failing || fails() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.failing[hook], queue); len(r.failing[hook]) == 0 {
		delete(r.failing, hook)
		r.own(hook, "Normal", "HookRecovered", fmt.Sprintf("Hook %q runs well again", hook))
	}
}

// own counts an Event about the operator's Pod. It requires mu.
func (r *Recorder) own(hook, kind, reason, note string) {
	if r.opts.Pod.Name != "" && !r.opts.NoFailures && !r.mute[r.opts.Pod.Namespace] {
		r.add(series{Event{Regarding: r.opts.Pod, Type: kind, Reason: reason, Action: "RunHook"}, hook}, note, "")
	}
}

// add counts an occurrence. After a long time it begins a new Event. It requires mu.
func (r *Recorder) add(s series, note, hook string) bool {
	now := time.Now()
	l := r.lines[s]
	if l != nil && now.Sub(l.last) > seriesWindow && !l.sending {
		r.forget(s, l)
		l = nil
	}
	if l == nil {
		if r.sweep(now); len(r.lines) >= maxTracked {
			return false
		}
		r.created++
		l = &line{Event: s.Event, number: r.created, hook: hook, first: now, notBefore: now}
		l.Note = note
		r.lines[s] = l
	}
	l.count++
	l.last = now
	kube.Wake(r.woken)
	return true
}

// forget requires mu.
func (r *Recorder) forget(s series, l *line) {
	delete(r.lines, s)
	if l.due() {
		r.drop(l.hook)
	}
}

// sweep forgets what has not happened for long, now and then. It requires mu.
func (r *Recorder) sweep(now time.Time) {
	if now.Sub(r.swept) < writeInterval {
		return
	}
	r.swept = now
	for s, l := range r.lines {
		if now.Sub(l.last) > seriesWindow && !l.sending {
			r.forget(s, l)
		}
	}
	for about, limit := range r.limits {
		if limit.TokensAt(now) >= burst {
			delete(r.limits, about)
		}
	}
}

// Run sends until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	for kube.Wait(ctx, r.Flush(ctx), r.woken) { // Flush again
	}
}

// Flush sends what is due, and returns after which time more is; 0 means that nothing is left. It is called by one goroutine at a time.
func (r *Recorder) Flush(ctx context.Context) (next time.Duration) {
	for ctx.Err() == nil {
		l, copied, wait := r.next(time.Now())
		if l == nil {
			return wait
		}
		r.sent(ctx, l, copied, r.send(ctx, &copied))
	}
	return 0
}

// next returns a line that can be sent, and a copy of it; or after which time there is one.
func (r *Recorder) next(now time.Time) (l *line, copied line, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	for _, one := range r.lines { // even maxTracked of them cost less than a request
		if one.due() && (l == nil || one.before(l)) {
			l = one
		}
	}
	if l == nil {
		return nil, line{}, 0
	}
	if left := l.notBefore.Sub(now); left > 0 {
		return nil, line{}, max(left, time.Millisecond)
	}
	l.sending = true
	return l, *l, 0
}

// sent notes what became of a line.
func (r *Recorder) sent(ctx context.Context, l *line, copied line, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.sending, l.Regarding, l.name, l.exists = false, copied.Regarding, copied.name, copied.exists
	now := time.Now()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		l.reported, l.notBefore = copied.count, now.Add(writeInterval)
	case apierrors.IsNotFound(err) && l.exists: // it has expired
		l.name, l.exists = "", false
	case kube.IsPermissionMissing(err):
		r.giveUp(l)
		r.silence(l, err)
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err): // also the next time
		r.giveUp(l)
		r.opts.Log.Debug("An Event is rejected", "hook", l.hook, "namespace", l.namespace(), "reason", l.Reason, "error", err.Error())
	default:
		l.notBefore = now.Add(retryDelay)
		r.opts.Log.Debug("Cannot write an Event. Will retry after delay.", "error", err.Error(), "delay", retryDelay.String())
	}
}

// giveUp requires mu.
func (r *Recorder) giveUp(l *line) {
	l.reported = l.count
	r.drop(l.hook)
}

// silence ends the Events of a namespace. It requires mu.
func (r *Recorder) silence(l *line, err error) {
	namespace := l.namespace()
	if r.mute[namespace] {
		return
	}
	r.mute[namespace] = true
	grant := kube.Grant(namespace, kube.Rule{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}})
	if l.hook != "" {
		r.opts.Log.Warn("No permission to write Events, those of hooks in this namespace are dropped", "hook", l.hook, "namespace", namespace,
			"error", fmt.Sprintf("%v: %s", err, grant))
		return
	}
	r.opts.Log.Warn("No permission to write Events, failing hooks show in the log only",
		"error", fmt.Sprintf("%v: %s, or start with --kubernetes-events=false", err, grant))
}
