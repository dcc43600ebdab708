package jq

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"time"
)

// budget is what one application of a filter may use. gojq asks it, as a Context, before each of its instructions whether
// to go on, so it needs no timer and no goroutine.
//
// Memory is that of the whole process, because Go does not tell whose it is. It is looked at only when the filter has
// taken longer than filters do, and counts only after a garbage collection.
type budget struct {
	context.Context
	limit   time.Duration
	started time.Time
	steps   uint
	// looked is when memory was looked at, which was inUse bytes at the first time.
	looked time.Time
	inUse  uint64
	err    error
	over   chan struct{}
}

const (
	// stepsPerLook is few, because a few instructions can double a text.
	stepsPerLook = 8
	// quick filters are not looked at any closer.
	quick = 2 * time.Millisecond
	// maxMemory is by how much the process may grow while a filter works.
	maxMemory = 256 << 20
)

var (
	errTooLong = errors.New("takes too long")
	errTooBig  = fmt.Errorf("the filter needs more than %d MiB of memory: does it build something without end?", maxMemory>>20)
)

func newBudget(ctx context.Context, limit time.Duration) *budget {
	return &budget{Context: ctx, limit: limit, started: time.Now(), over: make(chan struct{})}
}

// Done is called by gojq for each instruction, from one goroutine.
func (b *budget) Done() <-chan struct{} {
	if b.steps++; b.steps%stepsPerLook == 0 && b.err == nil {
		b.look(time.Now())
	}
	return b.over
}

// Err tells why the filter has to end.
func (b *budget) Err() error { return b.err }

func (b *budget) look(now time.Time) {
	if took := now.Sub(b.started); took > quick && now.Sub(b.looked) > quick {
		b.lookAtMemory(now)
	} else if took <= quick {
		return
	}
	switch {
	case b.err != nil:
	case b.Context.Err() != nil:
		b.end(b.Context.Err())
	case now.Sub(b.started) > b.limit:
		b.end(errTooLong)
	}
}

func (b *budget) lookAtMemory(now time.Time) {
	first := b.looked.IsZero()
	b.looked = now
	if first {
		b.inUse = inUse()
		return
	}
	if inUse() < b.inUse+maxMemory {
		return
	}
	runtime.GC()
	if inUse() > b.inUse+maxMemory {
		b.end(errTooBig)
	}
}

func (b *budget) end(err error) {
	b.err = err
	close(b.over)
}

// inUse is the memory of all objects, garbage that has not been found yet included.
func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
