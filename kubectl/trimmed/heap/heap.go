// Package heap lets the heap grow to a size that few commands reach before it is collected for the first time. Saves a fifth of the CPU
// time of a short command.
package heap

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

func init() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(64 << 20)
	// Unreachable, so the first collection finalizes it.
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) {
		debug.SetMemoryLimit(math.MaxInt64)
		debug.SetGCPercent(100)
	})
}
