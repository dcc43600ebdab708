//go:build !linux

package lifecycle

import "runtime/debug"

func releaseMemory() { debug.FreeOSMemory() }
