package queue

import (
	"cmp"
	"slices"
	"strings"
)

// visited is how many lanes a search visits before it releases the lock of the queue for a moment: about 0.1 ms.
const visited = 1000

// Find shows lanes of a queue, at most as many as limit, and reports whether there is one of the name. Without a text, those that wait for
// their next attempt come first, by its time, then those that run, then the others in the order in which they became ready. With a text, it
// shows those whose keys contain it: first those whose head has failed, then the others, by key; matching is the number of all of them. A
// search visits all lanes of the queue, but locks it for a part of them at a time: lanes that are there all the time are found. Look must
// be quick, must not call the Set, and must keep no task.
func (s *Set) Find(name, text string, limit int, look func(state State, matching int, lanes []Lane)) bool {
	q := s.find(name)
	if q == nil {
		return false
	}
	shape, keys, matching := s.shape(name), []string(nil), 0
	if text != "" {
		keys, matching = q.search(text, limit)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := &q.core
	c.ripen(q.age())
	var found []*lane
	if text == "" {
		found, matching = c.troubled(limit), c.size()
	}
	for _, key := range keys {
		// It may be gone, or was gone for a moment during the search and came twice.
		if l := c.lane(key); l != nil && l.tasks.len() > 0 && !slices.Contains(found, l) {
			found = append(found, l)
		}
	}
	lanes := make([]Lane, len(found))
	for i, l := range found {
		lanes[i] = q.lane(l)
	}
	look(q.state(shape), matching, lanes)
	return true
}

// match is a lane that a search has found.
type match struct {
	key    string
	failed bool
}

func compareMatches(a, b match) int {
	switch {
	case a.failed == b.failed:
		return cmp.Compare(a.key, b.key)
	case a.failed:
		return -1
	}
	return 1
}

// search returns the first keys that contain a text, and the number of all.
func (q *queue) search(text string, limit int) (keys []string, matching int) {
	var first []match
	n := 0
	q.mu.Lock()
	for l := range q.core.all() { // of a map that changes meanwhile, what stays is visited once
		if n++; n%visited == 0 {
			q.mu.Unlock()
			q.mu.Lock()
		}
		if !strings.Contains(l.key, text) || l.tasks.len() == 0 {
			continue
		}
		matching++
		m := match{l.key, l.failure(l.head()) != nil}
		if at, _ := slices.BinarySearchFunc(first, m, compareMatches); at < limit {
			first = slices.Insert(first[:min(len(first), limit-1)], at, m)
		}
	}
	q.mu.Unlock()
	for _, m := range first {
		keys = append(keys, m.key)
	}
	return keys, matching
}

// troubled returns the first lanes, at most as many as limit: those that wait for their next attempt, by its time, those that run, failed
// ones first, and the others as shown does. It does not visit the rest.
func (c *core) troubled(limit int) []*lane {
	lanes := c.sleeping.first(limit)
	running := slices.Clone(c.running)
	slices.SortStableFunc(running, func(a, b *lane) int {
		return cmp.Compare(len(b.failed), len(a.failed))
	})
	return c.fill(append(lanes, running...), limit)
}
