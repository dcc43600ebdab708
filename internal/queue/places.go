package queue

import "sync"

// places bounds the runs of all queues together. A free place goes to the queue that has waited longest for one.
type places struct {
	// limit is the largest number of runs; 0 means none.
	limit int

	mu      sync.Mutex
	used    int
	waiting []*queue
	waits   map[*queue]bool
}

// take returns false if there is no place. Then the queue gets one later.
func (p *places) take(q *queue) bool {
	if p.limit == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used < p.limit && len(p.waiting) == 0 {
		p.used++
		return true
	}
	if !p.waits[q] {
		if p.waits == nil {
			p.waits = map[*queue]bool{}
		}
		p.waits[q] = true
		p.waiting = append(p.waiting, q)
	}
	return false
}

// release returns a place, and lets the queue that is next use it. No queue's lock may be held.
func (p *places) release() {
	if p.limit == 0 {
		return
	}
	for {
		p.mu.Lock()
		if len(p.waiting) == 0 {
			p.used--
			p.mu.Unlock()
			return
		}
		q := p.waiting[0]
		p.waiting = p.waiting[1:]
		delete(p.waits, q)
		p.mu.Unlock()
		if q.grant() {
			return
		}
	}
}
