// Package kubeevent reports failing hooks by Kubernetes Events about the operator's Pod, where kubectl describe shows them.
//
// Callers may rely on this:
//   - Nothing waits for the API server: what happens is counted, and Run sends it.
//   - There is one Event for each hook that fails, one for each that has recovered, and one for tasks without an attempt left. Repetitions within ten minutes
//     count in the same Event, which is written at most once a minute.
//   - Without the permission to write Events there is one warning, and that is all.
//
// It does not use the recorders of client-go: they join what is about one object, so all hooks would be one series, and
// with them come the typed clients of all APIs.
package kubeevent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Options of a Recorder. All but UID are required.
type Options struct {
	Client rest.Interface
	// Namespace and Pod are where the operator runs.
	Namespace, Pod string
	// UID is that of the Pod, as the downward API gives it. If empty, it is read from the API server.
	UID types.UID
	Log *slog.Logger
}

const (
	// window is how long an Event is continued after its last occurrence.
	window = 10 * time.Minute
	// pause is the least time between two writes of an Event.
	pause = time.Minute
	// again is the time after which a write that failed is tried again.
	again = 10 * time.Second
)

// Recorder counts what happens to hooks. A nil Recorder does nothing.
type Recorder struct {
	opts Options
	send func(context.Context, *line) error
	// woken has a token when there may be something to send.
	woken chan struct{}

	mu    sync.Mutex
	hooks map[string]*state
	// mute is set when Events may not be written.
	mute bool
}

// state is what is known of a hook that failed lately.
type state struct {
	// failing are the queues in which it fails now.
	failing                      map[string]bool
	failed, recovered, exhausted line
}

func (s *state) lines() []*line { return []*line{&s.failed, &s.recovered, &s.exhausted} }

// sent reports whether the API server has received all lines.
func (s *state) sent() bool {
	return !slices.ContainsFunc(s.lines(), func(l *line) bool { return l.count != l.reported })
}

// New returns a Recorder. The API server need not be reachable yet.
func New(o Options) *Recorder {
	r := newRecorder()
	r.opts, r.send = o, newSender(o).send
	return r
}

func newRecorder() *Recorder {
	return &Recorder{woken: make(chan struct{}, 1), hooks: map[string]*state{}}
}

// Failed receives a run that failed and will be retried. The note is public: anyone who can read Events sees it.
func (r *Recorder) Failed(hook, queue, note string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state(hook)
	s.failing[queue] = true
	s.failed.add(time.Now(), note)
	r.wake()
}

func (r *Recorder) state(hook string) *state {
	s := r.hooks[hook]
	if s == nil {
		s = &state{
			failing: map[string]bool{}, failed: line{reason: "HookFailed", kind: "Warning"}, recovered: line{reason: "HookRecovered", kind: "Normal"},
			exhausted: line{reason: "RetriesExhausted", kind: "Warning"},
		}
		r.hooks[hook] = s
	}
	return s
}

// Exhausted receives a task that failed for the last time. The note is public, as that of Failed.
func (r *Recorder) Exhausted(hook, note string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state(hook).exhausted.add(time.Now(), note)
	r.wake()
}

// Succeeded receives a run that succeeded. A hook has recovered when it fails in no queue any more.
func (r *Recorder) Succeeded(hook, queue string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.hooks[hook]
	if s == nil || !s.failing[queue] {
		return
	}
	if delete(s.failing, queue); len(s.failing) == 0 {
		s.recovered.add(time.Now(), fmt.Sprintf("Hook %q runs well again", hook))
		r.wake()
	}
}

func (r *Recorder) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	for {
		var late <-chan time.Time
		timer := time.NewTimer(time.Hour)
		if next := r.flush(ctx); next > 0 {
			timer.Reset(next)
			late = timer.C
		}
		select {
		case <-r.woken:
		case <-late:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// flush sends what is due, and returns after which time more is; 0 means that nothing is left.
func (r *Recorder) flush(ctx context.Context) (next time.Duration) {
	soonest := func(d time.Duration) {
		if next == 0 || d < next {
			next = max(d, time.Millisecond)
		}
	}
	for {
		l, copied, wait := r.due(time.Now())
		if wait > 0 {
			soonest(wait)
		}
		if l == nil {
			return next
		}
		err := r.send(ctx, &copied)
		if ctx.Err() != nil {
			return 0
		}
		r.sent(l, copied, err)
	}
}

// due returns a line that can be sent, and a copy of it; or after which time there is one.
func (r *Recorder) due(now time.Time) (l *line, copied line, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, s := range r.hooks {
		for _, l := range s.lines() {
			if l.count == l.reported || r.mute {
				continue
			}
			if left := l.notBefore.Sub(now); left > 0 {
				if wait == 0 || left < wait {
					wait = left
				}
				continue
			}
			return l, *l, 0
		}
		if len(s.failing) == 0 && now.Sub(s.recovered.last) > window && now.Sub(s.exhausted.last) > window && s.sent() {
			delete(r.hooks, name)
		}
	}
	return nil, line{}, wait
}

// sent notes what became of a line.
func (r *Recorder) sent(l *line, copied line, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch {
	case !l.first.Equal(copied.first): // it is another Event by now
	case err == nil:
		l.name, l.reported, l.notBefore = copied.name, copied.count, now.Add(pause)
	case apierrors.IsNotFound(err) && l.name != "": // it has expired
		l.name = ""
	case apierrors.IsForbidden(err):
		r.mute = true
		r.opts.Log.Warn("No permission to write Events, failing hooks show in the log only", "error", fmt.Sprintf("%v: %s, or start with --kubernetes-events=false", err,
			kube.Grant(r.opts.Namespace, kube.Rule{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}})))
	default:
		l.notBefore = now.Add(again)
		r.opts.Log.Debug("Cannot write an Event. Will retry after delay.", "error", err.Error(), "delay", again.String())
	}
}
