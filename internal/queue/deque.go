package queue

import "time"

// deque is a list that is cheap at both ends and releases entries that have left it. It grows by blocks: a long one is never
// copied and has little spare capacity.
type deque struct {
	// blocks hold the entries, from the place head in the first one on. What is before and behind them is zero.
	blocks []*[blockSize]entry
	head   int
	n      int
}

const blockSize = 64

func (d *deque) len() int       { return d.n }
func (d *deque) at(i int) entry { return *d.place(i) }

func (d *deque) place(i int) *entry {
	i += d.head
	return &d.blocks[i/blockSize][i%blockSize]
}

func (d *deque) setSince(i int, t time.Duration) { d.place(i).since = t }

func (d *deque) push(e entry) {
	if d.head+d.n == len(d.blocks)*blockSize {
		d.blocks = append(d.blocks, new([blockSize]entry))
	}
	d.n++
	*d.place(d.n - 1) = e
}

// insert moves those before i to the front: they are few.
func (d *deque) insert(i int, e entry) {
	if d.head == 0 {
		d.blocks = append([]*[blockSize]entry{new([blockSize]entry)}, d.blocks...)
		d.head = blockSize
	}
	d.head--
	d.n++
	for to := range i {
		*d.place(to) = *d.place(to + 1)
	}
	*d.place(i) = e
}

// removeAt closes the gap from the front: the entries before it are few.
func (d *deque) removeAt(i int) {
	for ; i > 0; i-- {
		*d.place(i) = *d.place(i - 1)
	}
	*d.place(0) = entry{}
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
