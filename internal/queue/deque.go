package queue

import (
	"slices"
	"time"
)

// deque is a list that is cheap at both ends and releases entries that have left it.
type deque struct{ all []entry }

func (d *deque) len() int                        { return len(d.all) }
func (d *deque) at(i int) entry                  { return d.all[i] }
func (d *deque) setSince(i int, t time.Duration) { d.all[i].since = t }
func (d *deque) push(e entry)                    { d.all = append(d.all, e) }
func (d *deque) insert(i int, e entry)           { d.all = slices.Insert(d.all, i, e) }

// removeAt closes the gap from the nearer end: the entries before or behind it are few.
func (d *deque) removeAt(i int) {
	switch {
	case d.len() == 1:
		d.all = nil
	case i > d.len()/2:
		d.all = slices.Delete(d.all, i, i+1)
	default:
		copy(d.all[1:], d.all[:i])
		d.all[0] = entry{}
		d.all = d.all[1:]
	}
}
