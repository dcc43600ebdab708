package jq

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"time"
)

// budget limits the time and memory of one evaluation. gojq checks it, as a Context, before each instruction, so it needs no timer
// and no goroutine.
//
// Memory is measured for the whole process: Go does not attribute it. It is measured only when the filter is slow, and exceeds the limit
// only if it still does after a garbage collection. What the end of the evaluation releases was the filter's: if that is less, memory
// has grown elsewhere, and the filter is evaluated again.
type budget struct {
	context.Context
	limit   time.Duration
	started time.Time
	steps   uint
	// looked is when memory was last measured, inUse the first measurement.
	looked time.Time
	inUse  uint64
	// most is the memory with which the limit was exceeded.
	most   uint64
	memory func() uint64
	err    error
	over   chan struct{}
}

const (
	// stepsPerLook is small because a few instructions can double a string.
	stepsPerLook = 8
	// quick filters are not measured.
	quick = 2 * time.Millisecond
	// maxMemory is the growth of the process that is allowed during an evaluation.
	maxMemory = 256 << 20
	// maxTries bounds evaluations during which memory grows elsewhere.
	maxTries = 10
)

var (
	errTooLong = errors.New("takes too long")
	errTooBig  = fmt.Errorf("the filter needs more than %d MiB of memory: does it build an infinite result?", maxMemory>>20)
)

func newBudget(ctx context.Context, limit time.Duration, memory func() uint64) *budget {
	return &budget{Context: ctx, limit: limit, started: time.Now(), memory: memory, over: make(chan struct{})}
}

// released reports whether the evaluation, which has ended, had the memory that exceeded the limit.
func (b *budget) released() bool {
	runtime.GC()
	return b.memory() < b.most-maxMemory/2
}

// Done is called by gojq for each instruction, from one goroutine.
func (b *budget) Done() <-chan struct{} {
	if b.steps++; b.steps%stepsPerLook == 0 && b.err == nil {
		b.look(time.Now())
	}
	return b.over
}

// Err is the exceeded limit.
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
		b.inUse = b.memory()
		return
	}
	if b.memory() < b.inUse+maxMemory {
		return
	}
	runtime.GC()
	if b.most = b.memory(); b.most > b.inUse+maxMemory {
		b.end(errTooBig)
	}
}

func (b *budget) end(err error) {
	b.err = err
	close(b.over)
}

// inUse is the memory of all objects, uncollected garbage included.
func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
