package process

import (
	"iter"
	"syscall"
	"time"
)

// LimitsProcesses reports whether the limits of processes hold here: there is no prlimit.
const LimitsProcesses = false

func startTraced(Limits, time.Duration, string, []string, *syscall.ProcAttr) (int, error) {
	return 0, syscall.ENOSYS
}

func childrenOf(int) iter.Seq[int] { return func(func(int) bool) {} }

func (l Limits) holdSpace(int) error                             { return nil }
func (l Limits) holdCPU(int, time.Duration, time.Duration) error { return nil }
