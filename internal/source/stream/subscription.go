package stream

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

// Consumer processes the objects of a stream. Each subscription calls Replace, Change and Remove one at a time; Needs, Filter and Held are
// called concurrently.
type Consumer interface {
	Needs() Needs
	// Filter applies the filters. The result is not done if ctx ended before.
	Filter(ctx context.Context, o *Object, content *jq.Object) Filtered
	// Replace delivers a complete list.
	Replace(sub *Subscription, entries []Digested)
	// Change delivers an object that is new or different, Remove the last state of a deleted one.
	Change(*Subscription, Digested)
	Remove(*Subscription, *Object)
	// Answered reports the outcome of a request; nil is success.
	Answered(sub *Subscription, verb string, err error)
	// Reached reports that everything up to a version has been processed; of a list that is not merged, it may be lower than before.
	Reached(sub *Subscription, version uint64, listed bool)
	// Dropped reports that changes were dropped because the consumer is too slow. A list follows.
	Dropped(sub *Subscription, changes int)
	// Held returns a function that finds an object of the consumer with its JSON, or nil, so that a list for other consumers shares the
	// bytes. The function is nil if there are none.
	Held() func(key, uid, version string) *Object
}

// Needs are the parts of objects that a consumer keeps: their JSON, their lifetime, the results of filters.
type Needs struct {
	JSON, Lifetime bool
	Filters        []*jq.Filter
}

// Digested is an object with the results of the filters.
type Digested struct {
	Object   *Object
	Filtered []byte
	// Key is the text of a jq key of the binding's queue.
	Key string
}

// Subscription connects a consumer to a stream. It has a queue and, while that is not empty, a goroutine, so that a slow consumer delays no
// other.
type Subscription struct {
	Consumer
	Scope Scope
	// Only and OnlyIn are the names and namespaces to deliver from a stream that is wider than the consumer; nil means all.
	Only, OnlyIn map[string]bool
	// gone is set when the stream has been left, or must not be joined.
	gone atomic.Bool
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

	// Recast: the objects of the delivery in progress may differ from those with the same version. Replace, Change and Remove may read it.
	Recast bool
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
	return max(len(d.changed.JSON), len(d.changed.text)) + len(d.changed.result(d.index).Filtered)
}

// ParseVersion parses a resource version; 0 stands for one that is no number and cannot be compared.
func ParseVersion(text string) uint64 {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

func (s *Subscription) Wants(o *Object) bool {
	return (s.Only == nil || s.Only[o.Name]) && (s.OnlyIn == nil || s.OnlyIn[o.Namespace])
}

// join makes the subscription wait for a list of the stream.
func (s *Subscription) join(from *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source, s.waiting = from, true
}

// AwaitWatch returns when requests no longer wait for the watch of the stream, with the version that has been read, and until when they
// wait for its objects.
func (s *Subscription) AwaitWatch(ctx context.Context) (read uint64, held time.Time) {
	s.mu.Lock()
	from := s.source
	s.mu.Unlock()
	if from == nil {
		return 0, held
	}
	from.mu.Lock()
	defer from.mu.Unlock()
	if watched, left := from.watched, time.Until(from.held); left > 0 {
		from.mu.Unlock()
		kube.Wait(ctx, left, watched)
		from.mu.Lock()
	}
	return from.read, from.held
}

func (s *Subscription) leave() {
	s.gone.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source = nil
	s.setQueue(nil)
}

// deliver queues what the reflector of a stream reports.
func (s *Subscription) deliver(ctx context.Context, from *stream, d delivery) {
	if n := s.receive(ctx, from, d); n > 0 {
		s.Dropped(s, n)
		kube.Wake(from.wake)
	}
}

// receive returns the number of changes that were dropped.
func (s *Subscription) receive(ctx context.Context, from *stream, d delivery) (dropped int) {
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
func (s *Subscription) bookmark(ctx context.Context, from *stream, version uint64) {
	s.mu.Lock()
	ignored, idle := s.source != from || s.waiting, len(s.queue) == 0 && !s.busy
	if !ignored && !idle {
		s.enqueue(ctx, from, delivery{version: version})
	}
	s.mu.Unlock()
	if !ignored && idle {
		s.Reached(s, version, false)
	}
}

func (s *Subscription) setQueue(queue []delivery) {
	s.queue, s.bytes = queue, 0
	for i := range queue {
		s.bytes += queue[i].size()
	}
}

// merge queues a list that the reflector did not make, for a consumer that waits. The changes after it follow.
func (s *Subscription) merge(ctx context.Context, from *stream, d delivery) {
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
func (s *Subscription) contains(a *arrival) bool { return a.version != 0 && a.version <= s.floor }

func (s *Subscription) enqueue(ctx context.Context, from *stream, d delivery) {
	s.queue = append(s.queue, d)
	s.bytes += d.size()
	if !s.waiting {
		s.start(ctx, from)
	}
}

func (s *Subscription) start(ctx context.Context, from *stream) {
	if !s.busy {
		s.busy = true
		from.running.Go(func() { s.drain(ctx) })
	}
}

// drain delivers until the queue is empty, or the consumer waits for a list.
func (s *Subscription) drain(ctx context.Context) {
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
		s.Reached(s, d.version, d.isList)
	}
}

func (s *Subscription) apply(ctx context.Context, d delivery) {
	s.Recast = d.recast
	switch {
	case d.isDeletion:
		s.Remove(s, d.changed.Object)
	case !d.isList && d.changed == nil:
	case !d.isList:
		if e, ok := s.entry(ctx, d.changed, d.index); ok {
			s.Change(s, e)
		}
	default:
		entries := make([]Digested, 0, len(d.list))
		for _, a := range d.list {
			if !s.Wants(a.Object) {
				continue
			}
			e, ok := s.entry(ctx, a, d.index)
			if !ok {
				return // half a list would look like deletions
			}
			entries = append(entries, e)
		}
		s.Replace(s, entries)
	}
}

// entry applies the filters if that has not been done yet. It returns false after the end of deliveries.
func (s *Subscription) entry(ctx context.Context, a *arrival, index int) (Digested, bool) {
	r := a.result(index)
	if filters := s.Needs().Filters; len(filters) > 0 && !r.Done {
		if s.gone.Load() {
			return Digested{}, false
		}
		started := time.Now()
		r = s.Filter(ctx, a.Object, jq.NewObject(a.text, jq.NeedOf(filters...)))
		if time.Since(started) > filterTurn {
			s.slow()
		}
		if !r.Done {
			return Digested{}, false
		}
	}
	return Digested{a.Object, r.Filtered, r.Key}, true
}

const (
	// filterTurn is the time that a filter has while other consumers of the object wait.
	filterTurn = 200 * time.Millisecond
	// slowFor is how long a filter runs in its own goroutine after it took longer. On a machine without CPU time to spare that may be a
	// mistake, which costs another decoding of the object.
	slowFor = 10 * time.Second
)

func (s *Subscription) slow() { s.slowUntil.Store(time.Now().Add(slowFor).UnixNano()) }

// isSlow reports that the filter was slow a moment ago, or may be slow for an object of usual size.
func (s *Subscription) isSlow() bool {
	until := s.slowUntil.Load()
	return until != 0 && time.Now().UnixNano() < until || slices.ContainsFunc(s.Needs().Filters, (*jq.Filter).Slow)
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
