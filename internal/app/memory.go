package app

import (
	"math"
	"runtime/debug"
	"sync/atomic"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// ballast is memory that nobody touches, so that it takes none. To the collector it is in use, and it waits for a part of
// that before it begins. Without it the collector would begin every few milliseconds while there is next to nothing in
// use: in an operator that keeps little, when events come fast, and in every operator while first lists are read.
type ballast struct {
	_     [ballastAlways]byte
	lists atomic.Pointer[[ballastLists]byte]
}

const (
	ballastAlways = 8 << 20
	ballastLists  = 16 << 20 // more, until the first lists are read
)

// newBallast returns nil if users have limited the memory: ballast would count.
func newBallast() *ballast {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return nil
	}
	b := new(ballast)
	b.lists.Store(new([ballastLists]byte))
	return b
}

// listsRead drops what is only there while first lists are read.
func (b *ballast) listsRead() {
	if b != nil {
		b.lists.Store(nil)
	}
}

// queueTrim gives memory back once the Synchronizations that are queued now are over. First lists leave many times
// their size in garbage, and an operator that is idle afterwards would keep it for minutes.
func (op *operator) queueTrim() {
	op.queues.Add(hook.MainQueue, step{"ReleaseMemory", func() {
		op.ballast.listsRead()
		debug.FreeOSMemory()
	}})
}
