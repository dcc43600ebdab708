package process

import (
	"iter"
	"time"
)

// LimitsProcesses reports whether the limits of processes hold here: there is no prlimit.
const LimitsProcesses = false

func childrenOf(int) iter.Seq[int] { return func(func(int) bool) {} }

func (l Limits) holdSpace(int) error                             { return nil }
func (l Limits) holdCPU(int, time.Duration, time.Duration) error { return nil }
