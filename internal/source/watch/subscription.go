package watch

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// consumer processes the objects of a stream. Each subscription calls replace, change and remove one at a time; needs, filter and holding are
// called concurrently.
type consumer interface {
	needs() needs
	// filter applies the filters. The result is not done if ctx ended before.
	filter(ctx context.Context, o *object, content *jq.Object) filtered
	// replace delivers a complete list.
	replace(sub *subscription, entries []digested)
	// change delivers an object that is new or different, remove one that was deleted.
	change(*subscription, digested)
	remove(*subscription, *object)
	// answered reports the outcome of a request; nil is success.
	answered(sub *subscription, verb string, err error)
	// processed reports that everything up to a version has been processed; of a list that is not merged, it may be lower than before.
	processed(sub *subscription, version uint64, listed bool)
	// dropped reports that changes were dropped because the consumer is too slow. A list follows.
	dropped(sub *subscription, changes int)
	// holding returns a function that finds an object of the consumer with its JSON, or nil, so that a list for other consumers shares the
	// bytes. The function is nil if there are none.
	holding() func(key, uid, version string) *object
}

// needs are what a consumer keeps of objects: their JSON, their lifetime, the results of filters.
type needs struct {
	json, lifetime bool
	filters        []*jq.Filter
}

// digested is an object with the results of the filters.
type digested struct {
	object   *object
	filtered []byte
	// key is the text of a jq key of the binding's queue.
	key string
}

// subscription connects a consumer to a stream. It has a queue and, while that is not empty, a goroutine, so that a consumer whose filter
// or sink is slow delays no other.
type subscription struct {
	consumer
	scope scope
	// only and onlyIn are the names and namespaces to deliver from a stream that is wider than the binding; nil means all.
	only, onlyIn map[string]bool
	// gone is set when the stream has been left.
	gone atomic.Bool
	// ended is set when the stream has been left, or must not be joined. The lock of the pool guards it.
	ended bool
	// slowUntil is the Unix time in nanoseconds until which the filter does not run beside the filters of other consumers.
	slowUntil atomic.Int64

	mu sync.Mutex
	// source is the stream whose deliveries count, nil before joining and after leaving.
	source *stream
	// waiting: no list has been delivered yet, changes are queued. busy: a goroutine delivers.
	waiting, busy bool
	queue         []delivery
	// bytes is the size of the changes in the queue.
	bytes int
	// floor is the version of the list that was delivered, which contains all changes up to there, until the watch has passed it. When
	// changes were dropped, it is the version of the last one. An older list is not delivered.
	floor uint64

	// recast is that of the delivery in progress.
	recast bool
}

// delivery is a list, a change of an object, or else a bookmark.
type delivery struct {
	isList, isDeletion bool
	list               []*arrival
	changed            *arrival
	// version is the version of the list, or of the bookmark.
	version uint64
	// index is the consumer's place among the results of the arrivals.
	index int
	// recast: the objects of the list may differ from those with the same version.
	recast bool
}

// A queue has at most so many changes, and so many bytes of them. When a consumer is too slow for that, they are dropped, and it waits for
// a list.
const (
	queueChanges = 100_000
	queueBytes   = 64 << 20
)

// size is the number of bytes of a change; 0 for others.
func (d *delivery) size() int {
	if d.changed == nil {
		return 0
	}
	return max(len(d.changed.json), len(d.changed.text)) + len(d.changed.result(d.index).filtered)
}

// version parses a resource version; 0 stands for one that is no number and cannot be compared.
func version(text string) uint64 {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

func (s *subscription) wants(o *object) bool {
	return (s.only == nil || s.only[o.name]) && (s.onlyIn == nil || s.onlyIn[o.namespace])
}

// join makes the subscription wait for a list of the stream.
func (s *subscription) join(from *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source, s.waiting = from, true
}

// awaitWatch returns when requests no longer wait for the watch of the stream, with the version that has been read, and until when they
// wait for its objects.
func (s *subscription) awaitWatch(ctx context.Context) (read uint64, held time.Time) {
	s.mu.Lock()
	from := s.source
	s.mu.Unlock()
	if from == nil {
		return 0, held
	}
	return from.awaitWatch(ctx)
}

func (s *subscription) leave() {
	s.gone.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source = nil
	s.setQueue(nil)
}

// deliver queues what the reflector of a stream reports.
func (s *subscription) deliver(ctx context.Context, from *stream, d delivery) {
	if n := s.receive(ctx, from, d); n > 0 {
		s.dropped(s, n)
		kube.Wake(from.wake)
	}
}

// receive returns the number of changes that were dropped.
func (s *subscription) receive(ctx context.Context, from *stream, d delivery) (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.source != from:
		return 0
	case d.isList:
		if s.waiting {
			s.setQueue(nil)
		}
		s.waiting, s.floor = false, 0
	case s.contains(d.changed):
		return 0
	case !s.waiting:
		s.floor = 0
	}
	s.enqueue(ctx, from, d)
	if s.waiting || d.isList || d.changed.version == 0 || len(s.queue) <= queueChanges && s.bytes <= queueBytes {
		return 0
	}
	dropped = len(s.queue)
	s.setQueue(nil)
	s.waiting, s.floor = true, d.changed.version
	return dropped
}

// bookmark notes that the stream has come up to a version, behind the changes that wait.
func (s *subscription) bookmark(ctx context.Context, from *stream, version uint64) {
	s.mu.Lock()
	ignored, idle := s.source != from || s.waiting, len(s.queue) == 0 && !s.busy
	if !ignored && !idle {
		s.enqueue(ctx, from, delivery{version: version})
	}
	s.mu.Unlock()
	if !ignored && idle {
		s.processed(s, version, false)
	}
}

func (s *subscription) setQueue(queue []delivery) {
	s.queue, s.bytes = queue, 0
	for i := range queue {
		s.bytes += queue[i].size()
	}
}

// merge queues a list that the reflector did not make, for a consumer that waits. The changes after it follow.
func (s *subscription) merge(ctx context.Context, from *stream, d delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source != from || !s.waiting || d.version < s.floor {
		return // the reflector listed meanwhile, or the list is older than what was dropped
	}
	s.waiting, s.floor = false, d.version
	newer := slices.DeleteFunc(s.queue, func(d delivery) bool { return s.contains(d.changed) })
	s.setQueue(append([]delivery{d}, newer...))
	s.start(ctx, from)
}

// contains reports whether a change is part of the list that was delivered. It requires mu.
func (s *subscription) contains(a *arrival) bool { return a.version != 0 && a.version <= s.floor }

func (s *subscription) enqueue(ctx context.Context, from *stream, d delivery) {
	s.queue = append(s.queue, d)
	s.bytes += d.size()
	if !s.waiting {
		s.start(ctx, from)
	}
}

func (s *subscription) start(ctx context.Context, from *stream) {
	if !s.busy {
		s.busy = true
		from.running.Go(func() { s.drain(ctx) })
	}
}

// drain delivers until the queue is empty, or the consumer waits for a list.
func (s *subscription) drain(ctx context.Context) {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 || s.waiting || ctx.Err() != nil {
			if s.busy = false; !s.waiting {
				s.setQueue(nil)
			}
			s.mu.Unlock()
			return
		}
		d := s.queue[0]
		s.queue[0] = delivery{}
		s.queue = s.queue[1:]
		s.bytes -= d.size()
		s.mu.Unlock()
		s.apply(ctx, d)
		if d.changed != nil {
			d.version = d.changed.version
		}
		s.processed(s, d.version, d.isList)
	}
}

func (s *subscription) apply(ctx context.Context, d delivery) {
	s.recast = d.recast
	switch {
	case d.isDeletion:
		s.remove(s, d.changed.object)
	case !d.isList && d.changed == nil:
	case !d.isList:
		if e, ok := s.entry(ctx, d.changed, d.index); ok {
			s.change(s, e)
		}
	default:
		entries := make([]digested, 0, len(d.list))
		for _, a := range d.list {
			if !s.wants(a.object) {
				continue
			}
			e, ok := s.entry(ctx, a, d.index)
			if !ok {
				return // half a list would look like deletions
			}
			entries = append(entries, e)
		}
		s.replace(s, entries)
	}
}

// entry applies the filters if that has not been done yet. It returns false if nothing is to be delivered any more.
func (s *subscription) entry(ctx context.Context, a *arrival, index int) (digested, bool) {
	r := a.result(index)
	if filters := s.needs().filters; len(filters) > 0 && !r.done {
		if s.gone.Load() {
			return digested{}, false
		}
		started := time.Now()
		r = s.filter(ctx, a.object, jq.NewObject(a.text, jq.NeedOf(filters...)))
		if time.Since(started) > filterTurn {
			s.slow()
		}
		if !r.done {
			return digested{}, false
		}
	}
	return digested{a.object, r.filtered, r.key}, true
}

const (
	// filterTurn is the time that a filter has while other consumers of the object wait.
	filterTurn = 200 * time.Millisecond
	// slowFor is how long a filter runs in its own goroutine after it took longer. On a machine without CPU time to spare that may be a
	// mistake, which costs another decoding of the object.
	slowFor = 10 * time.Second
)

func (s *subscription) slow() { s.slowUntil.Store(time.Now().Add(slowFor).UnixNano()) }

// isSlow reports that the filter was slow a moment ago, or may be slow for an object of usual size.
func (s *subscription) isSlow() bool {
	until := s.slowUntil.Load()
	return until != 0 && time.Now().UnixNano() < until || slices.ContainsFunc(s.needs().filters, (*jq.Filter).Slow)
}

// deadline is a context that ends filterTurn after it began. gojq polls Err, so it needs no timer.
type deadline struct {
	context.Context
	began time.Time
}

func (t *deadline) Err() error {
	if time.Since(t.began) > filterTurn {
		return context.DeadlineExceeded
	}
	return t.Context.Err()
}
