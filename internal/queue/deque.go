package queue

import (
	"slices"
	"time"
)

// deque is a list that is cheap at both ends and holds on to nothing that has left it.
type deque struct {
	// items[head:] are the entries. What is before has been zeroed.
	items []entry
	head  int
}

func (d *deque) len() int       { return len(d.items) - d.head }
func (d *deque) at(i int) entry { return d.items[d.head+i] }

func (d *deque) setSince(i int, t time.Time) { d.items[d.head+i].since = t }

func (d *deque) push(e entry) { d.items = append(d.items, e) }

func (d *deque) insert(i int, e entry) { d.items = slices.Insert(d.items, d.head+i, e) }

func (d *deque) removeAt(i int) {
	// Close the gap from the front: the entries before it are few.
	copy(d.items[d.head+1:d.head+i+1], d.items[d.head:d.head+i])
	d.items[d.head] = entry{}
	d.head++
	if d.head > 32 && d.head > len(d.items)/2 {
		d.items = append(make([]entry, 0, d.len()*2), d.items[d.head:]...)
		d.head = 0
	}
}
