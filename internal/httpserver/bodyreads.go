package httpserver

import (
	"slices"
	"sync"
)

// BodyReads bounds the request bodies that are being read. Clients decide how fast they send, so a full BodyReads aborts
// its oldest read for each new one: slow senders cannot lock others out.
type BodyReads struct {
	limit int

	mu sync.Mutex
	// active is in the order in which the reads began.
	active []*BodyRead
}

// BodyRead is one body that is being read.
type BodyRead struct {
	of      *BodyReads
	abort   func()
	aborted bool
}

// NewBodyReads returns BodyReads for limit bodies at a time.
func NewBodyReads(limit int) *BodyReads { return &BodyReads{limit: limit} }

// Begin never blocks. It calls abort of the oldest read if there are too many; abort must make that read return.
func (r *BodyReads) Begin(abort func()) *BodyRead {
	read := &BodyRead{of: r, abort: abort}
	var oldest *BodyRead
	r.mu.Lock()
	if len(r.active) >= r.limit {
		oldest = r.active[0]
		oldest.aborted = true
		r.active = r.active[1:]
	}
	r.active = append(r.active, read)
	r.mu.Unlock()
	if oldest != nil {
		oldest.abort()
	}
	return read
}

// End ends a read, whether it succeeded or not, and reports whether it was aborted.
func (b *BodyRead) End() (aborted bool) {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	if i := slices.Index(b.of.active, b); i >= 0 {
		b.of.active = slices.Delete(b.of.active, i, i+1)
	}
	return b.aborted
}
