package queue

import (
	"slices"
	"time"
)

// deque is a list that is cheap at both ends and releases entries that have left it.
type deque struct {
	// all are the entries from head on. What is before is zero.
	all  []entry
	head int
}

// minRoom is kept by a list that becomes shorter.
const minRoom = 64

func (d *deque) len() int                        { return len(d.all) - d.head }
func (d *deque) at(i int) entry                  { return d.all[d.head+i] }
func (d *deque) setSince(i int, t time.Duration) { d.all[d.head+i].since = t }

func (d *deque) push(e entry) {
	switch {
	case len(d.all) < cap(d.all) || d.head == 0:
	case d.head > d.len():
		d.all = slices.Delete(d.all, 0, d.head)
		d.head = 0
	default: // append would make room for what has left, too
		d.all = append(make([]entry, 0, max(minRoom, 2*d.len())), d.all[d.head:]...)
		d.head = 0
	}
	d.all = append(d.all, e)
}

// insert moves those before i to the front: they are few.
func (d *deque) insert(i int, e entry) {
	if d.head == 0 {
		d.all = slices.Insert(d.all, i, e)
		return
	}
	d.head--
	copy(d.all[d.head:], d.all[d.head+1:d.head+1+i])
	d.all[d.head+i] = e
}

// removeAt closes the gap from the nearer end: the entries before or behind it are few.
func (d *deque) removeAt(i int) {
	if i > d.len()/2 {
		d.all = slices.Delete(d.all, d.head+i, d.head+i+1)
	} else {
		copy(d.all[d.head+1:], d.all[d.head:d.head+i])
		d.all[d.head] = entry{}
		d.head++
	}
	if cap(d.all) > minRoom && 4*d.len() < cap(d.all) {
		d.all = append(make([]entry, 0, max(minRoom, 2*d.len())), d.all[d.head:]...)
		d.head = 0
	}
}
