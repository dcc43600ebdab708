package queue

import (
	"maps"
	"slices"
	"time"
)

// Edit calls keep for every task whose Run is not running, and drops the tasks for which it returns false. A head that
// waits to start, or for its next attempt, leaves immediately. keep is called with the queue's lock held: it must be quick
// and must not call the Set.
func (s *Set) Edit(keep func(Task) bool) {
	for _, q := range s.all() {
		q.change(func(now time.Duration) { q.core.edit(now, keep) })
		s.tidy(q)
	}
}

// Retry ends the delay of every lane for whose head which returns true, and returns of how many. which is called as keep of Edit.
func (s *Set) Retry(which func(queue, key string, head Task) bool) (ended int) {
	for _, q := range s.all() {
		q.change(func(now time.Duration) {
			ended += q.core.retry(now, func(key string, head Task) bool { return which(q.name, key, head) })
		})
	}
	return ended
}

// Repeat ends the delay of every lane for whose head which returns true, and does not count its last attempt. If the head runs and this run
// fails, it is retried immediately, and the attempt does not count. which is called as keep of Edit, also for heads that run.
func (s *Set) Repeat(which func(head Task) bool) {
	for _, q := range s.all() {
		q.change(func(now time.Duration) { q.core.repeat(now, which) })
	}
}

// Skip drops the head of a lane if it has failed and does not run, and returns it.
func (s *Set) Skip(name, key string) (f Failed, ok bool) {
	q := s.find(name)
	if q == nil {
		return Failed{}, false
	}
	q.change(func(now time.Duration) {
		var skipped failed
		skipped, ok = q.core.skip(now, key)
		f = Failed{Queue: name, Key: key, Task: skipped.task, Failures: skipped.failures, Err: skipped.last}
	})
	s.tidy(q)
	return f, ok
}

// Pause lets no run of a queue start until Resume, whether the queue exists or not.
func (s *Set) Pause(name string) { s.setPaused(name, true) }

// Resume ends a Pause.
func (s *Set) Resume(name string) { s.setPaused(name, false) }

func (s *Set) setPaused(name string, paused bool) {
	s.mu.Lock() // until the queue knows it, too
	defer s.mu.Unlock()
	if s.paused[name] = paused; !paused {
		delete(s.paused, name)
	}
	if q := s.queues[name]; q != nil {
		q.change(func(time.Duration) { q.core.paused = paused })
	}
}

// PausedQueues are the queues that are paused, sorted. Some of them may not exist.
func (s *Set) PausedQueues() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.paused))
}

// Keep makes a queue for each name, unless there is one, and lets every other queue end as soon as it is empty. Before the
// first call all queues stay.
func (s *Set) Keep(shapes map[string]Shape) {
	s.mu.Lock()
	s.shapes = shapes
	s.mu.Unlock()
	for name, shape := range shapes {
		s.change(name, func(q *queue, _ time.Duration) { q.core.width = max(1, shape.Concurrency) })
	}
	for _, q := range s.all() {
		s.tidy(q)
	}
}

// tidy ends a queue that is empty and not kept.
func (s *Set) tidy(q *queue) {
	if s.end(q) && s.opts.OnEnd != nil {
		s.opts.OnEnd(q.name)
	}
}

func (s *Set) end(q *queue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, kept := s.shapes[q.name]; kept || s.shapes == nil || s.running == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended || q.core.length > 0 {
		return false
	}
	q.ended = true
	if q.timer != nil {
		q.timer.Stop()
	}
	delete(s.queues, q.name)
	return true
}
