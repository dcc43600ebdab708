package queue

import (
	"slices"
	"time"
)

// deque is a list that is cheap at both ends and releases entries that have left it. A short one is a slice, because there may be very many
// short lanes. A long one grows by blocks: it is never copied and has little spare capacity.
type deque struct {
	// few are the entries until they are more than maxFew; from then on blocks are not nil.
	few []entry
	// blocks hold the entries, from index head of the first one on. What is before and behind them is zero.
	blocks []*[blockSize]entry
	head   int
	n      int
}

const (
	blockSize = 64
	maxFew    = 8
)

func (d *deque) len() int       { return d.n }
func (d *deque) at(i int) entry { return *d.ref(i) }

// ref points to an entry until the deque changes.
func (d *deque) ref(i int) *entry {
	if d.blocks == nil {
		return &d.few[i]
	}
	i += d.head
	return &d.blocks[i/blockSize][i%blockSize]
}

func (d *deque) setSince(i int, t time.Duration) { d.ref(i).since = t }

// short reports whether one more entry fits into few, and begins the blocks otherwise.
func (d *deque) short() bool {
	switch {
	case d.blocks != nil:
		return false
	case d.n < maxFew:
		return true
	}
	d.blocks = []*[blockSize]entry{new([blockSize]entry)}
	copy(d.blocks[0][:], d.few)
	d.few = nil
	return false
}

func (d *deque) push(e entry) {
	switch {
	case d.short():
		d.few = append(d.few, e)
		d.n++
		return
	case d.head+d.n == len(d.blocks)*blockSize:
		d.blocks = append(d.blocks, new([blockSize]entry))
	}
	d.n++
	*d.ref(d.n - 1) = e
}

// insert moves those before i to the front: they are few.
func (d *deque) insert(i int, e entry) {
	if d.short() {
		d.few = slices.Insert(d.few, i, e)
		d.n++
		return
	}
	if d.head == 0 {
		d.blocks = append([]*[blockSize]entry{new([blockSize]entry)}, d.blocks...)
		d.head = blockSize
	}
	d.head--
	d.n++
	for to := range i {
		*d.ref(to) = *d.ref(to + 1)
	}
	*d.ref(i) = e
}

// removeAt closes the gap from the nearer end: the entries before or behind it are few.
func (d *deque) removeAt(i int) {
	if d.blocks == nil {
		d.few = slices.Delete(d.few, i, i+1)
		d.n--
		return
	}
	if i > d.n/2 {
		for ; i < d.n-1; i++ {
			*d.ref(i) = *d.ref(i + 1)
		}
		*d.ref(d.n - 1) = entry{}
		d.n--
		if last := len(d.blocks) - 1; d.head+d.n <= last*blockSize {
			d.blocks[last] = nil
			d.blocks = d.blocks[:last]
		}
		return
	}
	for ; i > 0; i-- {
		*d.ref(i) = *d.ref(i - 1)
	}
	*d.ref(0) = entry{}
	d.n--
	switch d.head++; {
	case d.n == 0: // one block serves the next ones
		clear(d.blocks[1:])
		d.blocks, d.head = d.blocks[:1], 0
	case d.head == blockSize:
		d.blocks[0] = nil
		d.blocks, d.head = d.blocks[1:], 0
	}
}
