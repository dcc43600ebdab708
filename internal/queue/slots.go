package queue

import (
	"slices"
	"sync"
)

// slots bounds the runs of all queues together. A free slot goes to the queue that has waited longest for one.
type slots struct {
	// limit is the largest number of runs.
	limit int

	mu      sync.Mutex
	used    int
	waiting []*queue
}

// take returns false if there is no free slot. Then the queue gets one later.
func (s *slots) take(q *queue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used < s.limit && len(s.waiting) == 0 {
		s.used++
		return true
	}
	if !slices.Contains(s.waiting, q) {
		s.waiting = append(s.waiting, q)
	}
	return false
}

// release returns a slot, and lets the queue that is next use it. No queue's lock may be held.
func (s *slots) release() {
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 {
			s.used--
			s.mu.Unlock()
			return
		}
		q := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.mu.Unlock()
		if q.grant() {
			return
		}
	}
}
