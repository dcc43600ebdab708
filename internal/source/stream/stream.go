package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// stream is one list and one watch of the API server, shared by all consumers of a scope. It stores no objects: its consumers do, and they
// share the bytes.
//
// Its reflector is never interrupted. A consumer that joins while it watches gets a list of its own, merged with the watch at its resource
// version: the list is not older than the watch was when the consumer joined, and changes up to the list's version are part of it.
type stream struct {
	scope  Scope
	client rest.Interface
	// failed receives why a watch failed: the API server rejected or ended it ("expired" or "fail"), or the connection ended within an event
	// ("unexpected-eof"). It must not block.
	failed func(reason string)
	// wake signals that a consumer may wait for a list. Its capacity is 1.
	wake  chan struct{}
	stop  context.CancelFunc
	stopc context.Context
	// running counts the goroutines that deliver.
	running sync.WaitGroup

	mu sync.Mutex
	// subs is replaced, never changed, so a copy of the slice header may be used without the lock.
	subs []*Subscription
	// watching is false until the reflector has delivered a list, and again from the moment it begins another.
	watching bool
	// read is the newest version that the reflector has read.
	read uint64
	// watched is closed when a watch has been answered since the last list, or a request cannot succeed for lack of a permission or the kind.
	// Requests wait for that until held: after the first list, and when the operator has changed how the kind is served.
	watched chan struct{}
	held    time.Time
	// rewatched: hold was called.
	rewatched bool
	// relist ends the list or the watch of the reflector, which then lists again.
	relist context.CancelFunc
}

// longestWatch bounds the wait for the answer to a watch: some proxies delay it until the first event.
const longestWatch = 5 * time.Second

func newStream(client rest.Interface, sc Scope, failed func(reason string)) *stream {
	s := &stream{scope: sc, client: client, failed: failed, wake: make(chan struct{}, 1), watched: make(chan struct{}), relist: func() {}}
	s.stopc, s.stop = context.WithCancel(context.Background())
	return s
}

// Join adds a consumer. Its first delivery is a list.
func (s *stream) Join(sub *Subscription) {
	sub.join(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs = append(slices.Clone(s.subs), sub)
	kube.Wake(s.wake)
}

// Leave removes a consumer and reports whether it was the last.
func (s *stream) Leave(sub *Subscription) (empty bool) {
	sub.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs = slices.DeleteFunc(slices.Clone(s.subs), func(other *Subscription) bool { return other == sub })
	return len(s.subs) == 0
}

func (s *stream) consumers() []*Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subs
}

// run reads and delivers until ctx ends or the stream is stopped.
func (s *stream) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer s.running.Wait()
	defer cancel()
	defer context.AfterFunc(s.stopc, cancel)()
	s.running.Go(func() { s.serveLate(ctx) })

	f := &feed{stream: s, ctx: ctx}
	// A control plane that comes back is noticed within seconds. API priority and fairness protects it.
	backoff := &wait.Backoff{Duration: 300 * time.Millisecond, Factor: 1.7, Jitter: 0.3, Steps: 12, Cap: 8 * time.Second}
	r := cache.NewReflectorWithOptions(f, nil, f, cache.ReflectorOptions{
		Name: s.scope.String(), TypeDescription: s.scope.Resource, Backoff: backoff,
	})
	r.WatchListPageSize = pageSize
	fruitless := 0 // watches in a row
	_ = backoff.DelayWithReset(clock.RealClock{}, backoffReset).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		for again := true; again; {
			round, end := context.WithCancel(ctx)
			f.mu.Lock()
			f.relist = end
			f.mu.Unlock()
			// The feed has reported what goes wrong.
			_ = r.ListAndWatchWithContext(klog.NewContext(round, logr.Discard()))
			resync := round.Err() != nil
			end()
			// While the API server replaces what serves a kind, whenever its CRD changes, it ends watches, or answers one after a second, with an
			// error. The reflector takes both for failures, and snapshots would be as old as its back-off.
			if fruitless++; !f.fruitless.Load() {
				fruitless = 0
			}
			again = ctx.Err() == nil && (resync || fruitless == 1 ||
				fruitless > 1 && fruitless <= mostFruitless && kube.Wait(ctx, firstRelist<<fruitless, nil))
		}
		return false, nil
	})
}

// mostFruitless bounds the lists that follow watches without an event immediately, or after twice as long each time.
const (
	mostFruitless = 6
	firstRelist   = 5 * time.Millisecond
)

// backoffReset is how long the reflector has to work until the back-off begins again, as in client-go.
const backoffReset = 2 * time.Minute

// settle ends the wait for the watch, unless ctx, of a request, has ended. Without a permission or the kind there will be none.
func (s *stream) settle(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.watched:
	default:
		if ctx.Err() == nil {
			close(s.watched)
		}
	}
}

// unsettle begins a wait for the watch. It requires mu.
func (s *stream) unsettle() {
	select {
	case <-s.watched:
		s.watched = make(chan struct{})
	default:
	}
}

// hold makes the reflector list and watch again, and requests wait for that watch.
func (s *stream) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsettle()
	s.held, s.rewatched = time.Now().Add(longestWatch), true
	s.relist()
}

// answered reports the outcome of a request that was not cancelled; nil is success.
func (s *stream) answered(ctx context.Context, subs []*Subscription, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	if err != nil && verb == "watch" {
		s.failed(reasonOf(err))
	}
	if kind := TroubleOf(err); verb == "watch" && kind == NoTrouble || kind == Forbidden || kind == NotServed {
		s.settle(ctx)
	}
	for _, sub := range subs {
		sub.Answered(sub, verb, err)
	}
}

func reasonOf(err error) string {
	switch {
	case TroubleOf(err) == Expired:
		return "expired"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "unexpected-eof"
	}
	return "fail"
}

// reading returns the consumers that receive a change of the given version: those that have joined before it was read.
func (s *stream) reading(v uint64) []*Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = max(s.read, v)
	return s.subs
}

// serveLate lists for consumers that joined while the reflector watches.
func (s *stream) serveLate(ctx context.Context) {
	delay := time.Duration(0)
	for ctx.Err() == nil {
		subs := s.late()
		if len(subs) == 0 {
			delay = 0
			kube.Wait(ctx, 0, s.wake)
			continue
		}
		if s.listFor(ctx, subs) == nil {
			delay = 0
			continue
		}
		delay = min(max(2*delay, 300*time.Millisecond), 8*time.Second)
		kube.Wait(ctx, delay, nil)
	}
}

// late returns the consumers that wait for a list. While the reflector lists, they get its list.
func (s *stream) late() (subs []*Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.watching {
		return nil // the list of the reflector wakes us
	}
	for _, sub := range s.subs {
		sub.mu.Lock()
		if sub.waiting {
			subs = append(subs, sub)
		}
		sub.mu.Unlock()
	}
	return subs
}

// listFor lists for some of the consumers, while the reflector continues.
func (s *stream) listFor(ctx context.Context, subs []*Subscription) error {
	at, ok := s.begin(subs)
	if !ok {
		return nil
	}
	opts := metav1.ListOptions{Limit: pageSize}
	if at != 0 { // otherwise changes that the list contains are delivered again
		opts.ResourceVersion, opts.ResourceVersionMatch = strconv.FormatUint(at, 10), metav1.ResourceVersionMatchNotOlderThan
	}
	list, v, err := s.list(ctx, subs, opts)
	if err == nil {
		s.merge(ctx, subs, list, v)
	}
	return err
}

// begin returns the version that a list for some of the consumers must have, 0 if versions cannot be compared. It returns false while the
// reflector lists: that list is for the same consumers.
func (s *stream) begin(subs []*Subscription) (at uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.watching {
		return 0, false
	}
	for _, sub := range subs {
		sub.mu.Lock()
		if sub.waiting { // the changes in its queue have been read, so the list contains them
			sub.setQueue(nil)
		}
		sub.mu.Unlock()
	}
	return s.read, true
}

// merge delivers a list, unless the reflector has begun one: that is for the same consumers.
func (s *stream) merge(ctx context.Context, subs []*Subscription, list []*arrival, v uint64) {
	s.mu.Lock()
	watching := s.watching
	s.mu.Unlock()
	if !watching {
		return
	}
	s.reuse(list)
	for i, sub := range subs {
		sub.merge(ctx, s, delivery{isList: true, list: list, version: v, index: i})
	}
}

// reuse replaces objects of a list by those that a consumer has already, so that their bytes are in memory once.
func (s *stream) reuse(list []*arrival) {
	for _, sub := range s.consumers() {
		find := sub.Held()
		if find == nil {
			continue
		}
		for _, a := range list {
			if a.JSON == nil || a.shared {
				continue
			}
			if o := find(a.Key, a.UID, a.ResourceVersion); o != nil {
				shared := *o
				shared.lifetime = a.lifetime // the other consumer may not have it
				a.Object, a.shared = &shared, true
			}
		}
	}
}

// list reads all pages of a list for some of the consumers. Its version is 0 if it cannot be compared.
func (s *stream) list(ctx context.Context, subs []*Subscription, opts metav1.ListOptions) (list []*arrival, v uint64, err error) {
	serving := func() []*Subscription { return subs }
	at := ParseVersion(opts.ResourceVersion)
	for {
		page, err := s.page(ctx, opts, serving, serving)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, page.arrivals()...)
		v = ParseVersion(page.ResourceVersion)
		if v != 0 && v < at {
			err := fmt.Errorf("the list has version %q, which is before %d", page.ResourceVersion, at)
			s.answered(ctx, subs, "list", err)
			return nil, 0, err
		}
		if page.Continue == "" {
			return list, v, ctx.Err() // results may be missing after its end
		}
		opts.Continue, opts.ResourceVersion, opts.ResourceVersionMatch = page.Continue, "", ""
	}
}

// feed lists and watches for the reflector, as bytes, and is the store that the reflector fills.
type feed struct {
	*stream
	cache.ListerWatcher // nil: the reflector calls the variants with a context
	ctx                 context.Context
	// listed are the consumers of the list that the reflector makes. changedTo is the version of the last change.
	listed    []*Subscription
	changedTo uint64
	// recast: the objects of the list may differ from those with the same version, because the API server now serves them differently.
	recast bool
	// fruitless: the last watch has brought nothing but an error or an end.
	fruitless atomic.Bool
}

var _ interface {
	cache.ReflectorStore
	cache.ResourceVersionUpdater
} = (*feed)(nil)

// listing begins a list: from now on no other list is merged, because this one may be older.
func (f *feed) listing() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watching = false
	f.recast = f.recast || f.rewatched && time.Now().Before(f.held)
	f.unsettle()
}

// serving returns the consumers of the list, when its response arrives. Bindings that are enabled together join before that, so one list
// serves all of them: ten hooks with filters start in two thirds of the time.
func (f *feed) serving() []*Subscription {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = f.subs
	return f.listed
}

func (f *feed) Resync() error { return nil }

func (f *feed) Add(obj any) error    { return f.changed(obj, false) }
func (f *feed) Update(obj any) error { return f.changed(obj, false) }
func (f *feed) Delete(obj any) error { return f.changed(obj, true) }

func (f *feed) changed(obj any, deleted bool) error {
	if a, ok := obj.(*arrival); ok && f.ctx.Err() == nil {
		f.changedTo = a.version
		for i, sub := range a.subs {
			if sub.Wants(a.Object) {
				sub.deliver(f.ctx, f.stream, delivery{changed: a, index: i, isDeletion: deleted})
			} else {
				sub.bookmark(f.ctx, f.stream, a.version)
			}
		}
	}
	return nil
}

// UpdateResourceVersion is called after each change and for bookmarks, also in place of objects of other shards.
func (f *feed) UpdateResourceVersion(text string) {
	v := ParseVersion(text)
	if v == 0 || v == f.changedTo || f.ctx.Err() != nil {
		return
	}
	for _, sub := range f.consumers() {
		sub.bookmark(f.ctx, f.stream, v)
	}
}

// Replace delivers a complete list.
func (f *feed) Replace(objects []any, text string) error {
	if f.ctx.Err() != nil {
		return nil // results may be missing
	}
	list := make([]*arrival, 0, len(objects))
	for _, obj := range objects {
		if a, ok := obj.(*arrival); ok {
			list = append(list, a)
		}
	}
	f.replace(list, ParseVersion(text))
	return nil
}

func (f *feed) replace(list []*arrival, version uint64) {
	for i, sub := range f.listed {
		sub.deliver(f.ctx, f.stream, delivery{isList: true, list: list, version: version, index: i, recast: f.recast})
	}
	f.recast = false
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read, f.watching = version, true
	if f.held.IsZero() {
		f.held = time.Now().Add(longestWatch)
	}
	kube.Wake(f.wake)
	if f.scope.Resync > 0 {
		time.AfterFunc(f.scope.Resync, f.relist)
	}
}
