package queue

// Edit calls keep for every task whose Run is not running, and drops the tasks for which it returns false. A head that
// waits to start, or for its next attempt, leaves immediately. keep is called with the queue's lock held: it must be quick
// and must not call the Set.
func (s *Set) Edit(keep func(Task) bool) {
	for _, q := range s.all() {
		q.edit(keep)
	}
}

func (q *queue) edit(keep func(Task) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var kept deque
	first := q.first
	for i := range q.tasks.len() {
		e := q.tasks.at(i)
		head := i == 0 && q.busy
		switch {
		case head && q.phase == Running || keep(e.Task):
			kept.push(e)
		case head: // the worker has it, and removes it
			kept.push(e)
			q.dropped = true
			q.interrupt()
		case i < q.first || i == q.first && q.busy:
			first-- // it came by addFirst
		}
	}
	q.tasks, q.first = kept, first
}

// Retry ends the back-off of every head for which which returns true.
func (s *Set) Retry(which func(Task) bool) {
	for _, q := range s.all() {
		q.mu.Lock()
		if q.phase == Sleeping && which(q.tasks.at(0).Task) {
			q.interrupt()
		}
		q.mu.Unlock()
	}
}

// Keep makes a queue for each name, unless there is one, and lets every other queue end as soon as it is empty. Before the
// first call all queues stay.
func (s *Set) Keep(names map[string]bool) {
	s.mu.Lock()
	s.kept = names
	s.mu.Unlock()
	for name := range names {
		s.queue(name)
	}
	for _, q := range s.all() {
		q.signal() // the worker decides whether it ends
	}
}

// end removes a queue that is empty and not kept, and reports whether it did.
func (s *Set) end(q *queue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil || s.kept[q.name] {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.tasks.len() > 0 {
		return false
	}
	q.ended = true
	delete(s.queues, q.name)
	return true
}
