package process

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits bound each process of a run, but for Output, which bounds the run. 0 means no limit.
type Limits struct {
	// Memory is private writable memory (RLIMIT_DATA): RLIMIT_AS would end Go programs, which reserve much more than they use.
	Memory int64
	// CPUTime ends a process; it is counted in seconds. That of a worker begins again with each run.
	CPUTime time.Duration
	// Files is the size of a file that a process writes.
	Files int64
	// OpenFiles is the number of descriptors.
	OpenFiles int
	// Output is how many bytes of lines are delivered. The rest is read and dropped.
	Output int64
}

const (
	// cpuGrace is how much longer a process that ignores SIGXCPU runs; endless is that of a worker.
	cpuGrace = 5 * time.Second
	endless  = -1
)

// String names the limits of processes that hold; it is empty without any.
func (l Limits) String() string {
	var held []string
	add := func(holds bool, name, value string) {
		if holds {
			held = append(held, name+" "+value)
		}
	}
	add(l.Memory > 0, "memory", bytesText(l.Memory))
	add(l.CPUTime > 0, "cpuTime", l.CPUTime.String())
	add(l.Files > 0, "files", bytesText(l.Files))
	add(l.OpenFiles > 0, "openFiles", strconv.Itoa(l.OpenFiles))
	return strings.Join(held, ", ")
}

// bytesText writes bytes as quantities of Kubernetes are written.
func bytesText(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		if n%unit.size == 0 {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// exceeded names the limit that a signal reports, or the exit status of a shell whose program got it; it is empty if there is none.
func (l Limits) exceeded(ended syscall.Signal, status int, used time.Duration) string {
	const shell = 128
	signal := cmp.Or(ended, syscall.Signal(max(0, status-shell)))
	name, limit := "", ""
	switch {
	case l.CPUTime > 0 && (signal == syscall.SIGXCPU || signal == syscall.SIGKILL && used >= l.CPUTime+cpuGrace):
		name, limit = "cpuTime", l.CPUTime.String()
	case l.Files > 0 && signal == syscall.SIGXFSZ:
		name, limit = "files", bytesText(l.Files)
	default:
		return ""
	}
	return fmt.Sprintf("a process of the run exceeded limits.%s of its tenant, %s: raise it in the tenants file, or let the hook use less",
		name, limit)
}

// cpuSeconds is the limit of a process that has used some CPU time, in the unit of the kernel.
func (l Limits) cpuSeconds(used time.Duration) uint64 {
	return uint64(math.Ceil((used + l.CPUTime).Seconds()))
}

// set sets the limits of a process that has just been started. A negative grace sets no hard limit of CPU time: that of a worker is raised
// for each run, and without CAP_SYS_RESOURCE it cannot raise a hard one.
func (l Limits) set(pid int, grace time.Duration) error {
	return errors.Join(l.holdSpace(pid), l.holdCPU(pid, 0, grace))
}

// hold sets the limits of a process that could not be traced at its start, and of what it has forked in the moments before: under load a
// shell starts its first program earlier. A process escapes that is being forked meanwhile, or whose parent has ended already.
func (l Limits) hold(pid int, grace time.Duration) error {
	if err := l.set(pid, grace); err != nil {
		return err
	}
	for child := range childrenOf(pid) { // what it forks from now on inherits the limits
		if err := l.hold(child, grace); err != nil {
			return err
		}
	}
	return nil
}

// CPUVariable has the limit of CPU time of a run of a worker, in seconds. The kernel counts that of a forked process from its start, but
// lets it inherit the limit of the worker, which has been raised by what the worker has used: the libraries set it again.
const CPUVariable = "HOOK_CPU_SECONDS"

// variables are those of a run of a worker.
func (l Limits) variables() []string {
	if l.CPUTime <= 0 {
		return nil
	}
	return []string{CPUVariable + "=" + strconv.FormatUint(l.cpuSeconds(0), 10)}
}
