package watch

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// consumer is who wants the objects of a stream. All methods are called by the stream's goroutine,
// one after the other, except wants and filter, which several goroutines may call at once.
type consumer interface {
	// wants narrows the stream on our side, where it was made wider than the consumer asked for.
	wants(*object) bool
	// needs tells which filter the consumer has, nil for none, and whether objects have to keep their JSON.
	needs() (filter *jq.Filter, json bool)
	// filter computes what the consumer keeps beside the object. It fails by returning null.
	filter(ctx context.Context, o *object, content *jq.Object) []byte
	// replace hands over the complete set, change an object that is new or different, remove one that
	// has gone.
	replace(*subscription, []entry)
	change(*subscription, entry)
	remove(*subscription, *object)
	// answered is told how the API server took a request; nil means well.
	answered(sub *subscription, verb string, err error)
}

// entry is an object with its filter result.
type entry struct {
	object   *object
	filtered []byte
}

// subscription connects a consumer to a stream.
type subscription struct {
	consumer
	stream *stream
	// optional subscriptions are not waited for when they are forbidden: the hook does without.
	optional bool
	// gone is set when the stream serves the consumer no more.
	gone atomic.Bool
	// left is set when the consumer wants no more. The consumer's own lock guards it.
	left bool
	// ended is set when the stream has been left, or is never to be joined. The Watcher's lock guards it.
	ended bool
}

// stream is one list and one watch of the API server, shared by all who want the same.
//
// It keeps no objects itself: its consumers do, and they share the bytes. Whoever joins late causes a new
// list, of which the others see the differences only, that is to say nothing.
type stream struct {
	scope  scope
	client rest.Interface
	meter  Meter
	// again asks for a new list. Capacity 1: one that is about to start serves all who ask.
	again chan struct{}
	stop  context.CancelFunc
	stopc context.Context

	mu sync.Mutex
	// subs is replaced, never changed, so a copy of the slice header may be used without the lock.
	subs []*subscription
	// started tells that the current reflector has begun to read: whom it serves is decided. listed tells that it has
	// delivered a complete set, late that somebody has joined in between.
	started, listed, late bool
	// resync is the shortest period that a consumer asked for; 0 means never.
	resync time.Duration
	// due rings when the last complete set is as old as that. Nil without a set, or without a period.
	due *time.Timer
}

func newStream(client rest.Interface, sc scope) *stream {
	s := &stream{scope: sc, client: client, meter: noMeter{}, again: make(chan struct{}, 1)}
	s.stopc, s.stop = context.WithCancel(context.Background())
	return s
}

// join adds a consumer. Its first call is replace.
func (s *stream) join(sub *subscription, resync time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs = append(slices.Clone(s.subs), sub)
	if resync > 0 && (s.resync == 0 || resync < s.resync) {
		s.resync = resync
	}
	if s.listed {
		s.relist()
	}
	s.late = s.late || s.started
}

// leave removes a consumer and tells whether it was the last.
func (s *stream) leave(sub *subscription) (empty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.gone.Store(true)
	s.subs = slices.DeleteFunc(slices.Clone(s.subs), func(other *subscription) bool { return other == sub })
	return len(s.subs) == 0
}

func (s *stream) relist() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

func (s *stream) consumers() []*subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subs
}

// run keeps a reflector going until ctx ends or nobody wants the stream any more.
func (s *stream) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopc, cancel)()
	for ctx.Err() == nil {
		s.reflect(ctx)
	}
}

// reflect runs one reflector until ctx ends or a new list is due.
func (s *stream) reflect(ctx context.Context) {
	ctx, end := s.round(ctx)
	defer end()

	f := &feed{stream: s, ctx: ctx}
	lw := &listWatch{client: s.client, scope: s.scope, report: s.answered, broke: s.broke, ctx: ctx, serving: f.serving}
	// A control plane that comes back is noticed within seconds. API priority and fairness protects it.
	backoff := &wait.Backoff{Duration: 300 * time.Millisecond, Factor: 1.7, Jitter: 0.3, Steps: 12, Cap: 8 * time.Second}
	r := cache.NewReflectorWithOptions(lw, nil, f, cache.ReflectorOptions{
		Name: s.scope.String(), TypeDescription: s.scope.Resource, Backoff: backoff, Clock: kube.Clock(ctx),
	})
	r.WatchListPageSize = pageSize
	// What goes wrong has been reported by listWatch, in words that help.
	r.RunWithContext(klog.NewContext(ctx, logr.Discard()))
}

// round returns a context that ends with ctx, or when a new list is due. The caller has to call end.
func (s *stream) round(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.started, s.listed, s.late = false, false, false
	select {
	case <-s.again: // this list serves all who asked
	default:
	}
	s.mu.Unlock()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer cancel()
		select {
		case <-s.again:
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		waiting.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ring(0)
	}
}

// ring lets due ring after a period, and not as it was set before; 0 means never. The caller holds mu.
func (s *stream) ring(period time.Duration) {
	if s.due != nil {
		s.due.Stop()
		s.due = nil
	}
	if period > 0 {
		s.due = time.AfterFunc(period, s.relist)
	}
}

func (s *stream) answered(verb string, err error) {
	if err != nil && verb == "watch" {
		s.broke(err)
	}
	for _, sub := range s.consumers() {
		sub.answered(sub, verb, err)
	}
}

// broke counts a watch that failed. One that had begun is no trouble: the reflector goes on, or lists again.
func (s *stream) broke(err error) {
	reason := "fail"
	switch {
	case kindOfTrouble(err) == expired:
		reason = "expired"
	case errors.Is(err, io.ErrUnexpectedEOF):
		reason = "unexpected-eof"
	}
	s.meter.WatchFailed(reason)
}

// feed is the store that the reflector fills: it passes everything on to those who were there when the reflector began
// to read. Whoever comes later is served by the next one.
type feed struct {
	*stream
	ctx  context.Context
	once sync.Once
	subs []*subscription
}

var _ cache.ReflectorStore = (*feed)(nil)

// serving returns whom the feed serves. The first call decides.
func (f *feed) serving() []*subscription {
	f.once.Do(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.subs, f.started = f.stream.subs, true
	})
	return f.subs
}

func (f *feed) Resync() error { return nil }

func (f *feed) Add(obj any) error    { return f.changed(obj) }
func (f *feed) Update(obj any) error { return f.changed(obj) }

func (f *feed) changed(obj any) error {
	a, ok := obj.(*arrival)
	if !ok || f.ctx.Err() != nil {
		return nil // the reflector made it up, or as in Replace
	}
	for i, sub := range f.serving() {
		if !sub.gone.Load() && sub.wants(a.object) {
			sub.change(sub, entry{a.object, a.result(i)})
		}
	}
	return nil
}

func (f *feed) Delete(obj any) error {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	a, ok := obj.(*arrival)
	if !ok {
		return nil
	}
	for _, sub := range f.serving() {
		if !sub.gone.Load() && sub.wants(a.object) {
			sub.remove(sub, a.object)
		}
	}
	return nil
}

// Replace takes a complete list.
func (f *feed) Replace(list []any, _ string) error {
	if f.ctx.Err() != nil {
		return nil // results may be incomplete; whoever cancelled us lists again or stops
	}
	subs := f.serving()
	f.mu.Lock()
	f.listed = true
	f.ring(f.resync)
	f.mu.Unlock()
	for i, sub := range subs {
		if sub.gone.Load() {
			continue
		}
		entries := make([]entry, 0, len(list))
		for _, obj := range list {
			if a, ok := obj.(*arrival); ok && sub.wants(a.object) {
				entries = append(entries, entry{a.object, a.result(i)})
			}
		}
		sub.replace(sub, entries)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.late {
		f.late = false
		f.relist()
	}
	return nil
}
