package app

import (
	"math"
	"runtime/debug"
	"sync/atomic"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// ballast is memory that nobody touches, so that it takes none. To the collector it is in use, and it waits for a part of
// that before it begins. While first lists are read next to nothing is in use yet, and without ballast it would begin
// every few milliseconds.
type ballast struct {
	bytes atomic.Pointer[[ballastSize]byte]
}

const ballastSize = 24 << 20

// load takes ballast on, unless users have limited the memory: it would count.
func (b *ballast) load() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		b.bytes.Store(new([ballastSize]byte))
	}
}

func (b *ballast) drop() { b.bytes.Store(nil) }

// queueTrim gives memory back once the Synchronizations that are queued now are over. First lists leave many times
// their size in garbage, and an operator that is idle afterwards would keep it for minutes.
func (op *operator) queueTrim() {
	op.queues.Add(hook.MainQueue, step{"ReleaseMemory", func() {
		op.ballast.drop()
		debug.FreeOSMemory()
	}})
}
