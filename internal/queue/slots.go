package queue

import (
	"slices"
	"strings"
	"sync"
)

// slots bounds the runs of all queues together, and those of each group. A free slot goes to the queue that has waited longest for one and
// whose group has room.
type slots struct {
	// limit is the largest number of runs; 0 means none.
	limit int

	mu   sync.Mutex
	used int
	// groups are the limits of groups, and grouped the runs of all groups.
	groups, grouped map[string]int
	waiting         []*queue
}

// groupOf is what stands before the first slash of a name; empty without one.
func groupOf(name string) string {
	group, _, found := strings.Cut(name, "/")
	if !found {
		return ""
	}
	return group
}

// free reports whether there is nothing to count for a queue.
func (s *slots) free(q *queue) bool { return s.limit == 0 && q.group == "" }

// take returns false if there is no free slot. Then the queue gets one later.
func (s *slots) take(q *queue) bool {
	if s.free(q) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room(q) { // no queue waits that has room
		s.count(q, 1)
		return true
	}
	if !slices.Contains(s.waiting, q) {
		s.waiting = append(s.waiting, q)
	}
	return false
}

// room requires mu.
func (s *slots) room(q *queue) bool {
	limit, limited := s.groups[q.group]
	return (s.limit == 0 || s.used < s.limit) && (!limited || s.grouped[q.group] < limit)
}

// count requires mu.
func (s *slots) count(q *queue, by int) {
	s.used += by
	if q.group == "" {
		return
	}
	if s.grouped == nil {
		s.grouped = map[string]int{}
	}
	if s.grouped[q.group] += by; s.grouped[q.group] == 0 {
		delete(s.grouped, q.group)
	}
}

// release returns the slot of a run. No queue's lock may be held.
func (s *slots) release(q *queue) {
	if !s.free(q) {
		s.grant(q)
	}
}

// limitGroups sets the largest number of runs of groups. No queue's lock may be held.
func (s *slots) limitGroups(groups map[string]int) {
	s.mu.Lock()
	s.groups = groups
	s.mu.Unlock()
	s.grant(nil)
}

// grant lets the queues that are next use free slots, and before that the one of back, unless it is nil.
func (s *slots) grant(back *queue) {
	for {
		q := s.next(back)
		if q == nil {
			return
		}
		if back = nil; !q.grant() {
			back = q
		}
	}
}

// next takes a slot for the queue that is next, in one step with the return of another one, which no queue can take in between.
func (s *slots) next(back *queue) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if back != nil {
		s.count(back, -1)
	}
	i := slices.IndexFunc(s.waiting, s.room)
	if i < 0 {
		return nil
	}
	q := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.count(q, 1)
	return q
}
