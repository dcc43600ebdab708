package queue

// Edit asks keep about every task but those whose Run is running, and drops the tasks for which it returns false. It may
// change the tasks that stay. It is called with the queue's lock held, so it must be quick and must not call the Set.
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
		case head && q.running || keep(e.Task):
			kept.push(e)
		case head: // the worker has it, and removes it
			kept.push(e)
			q.dropped = true
			q.tryNow()
		case i < q.first || i == q.first && q.busy:
			first-- // it came by addFirst
		}
	}
	q.tasks, q.first = kept, first
}

// Retry makes the heads that wait for their next attempt, and for which is returns true, try at once.
func (s *Set) Retry(which func(Task) bool) {
	for _, q := range s.all() {
		q.mu.Lock()
		if q.busy && !q.running && q.failures > 0 && which(q.tasks.at(0).Task) {
			q.tryNow()
		}
		q.mu.Unlock()
	}
}

// tryNow ends the wait before the next attempt. The caller holds the lock.
func (q *queue) tryNow() {
	select {
	case q.again <- struct{}{}:
	default:
	}
}
