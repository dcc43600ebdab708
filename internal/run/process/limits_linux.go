package process

import (
	"errors"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// LimitsProcesses reports whether the limits of processes hold here.
const LimitsProcesses = true

// childrenOf yields the children of a process; none if the kernel does not list them.
func childrenOf(pid int) iter.Seq[int] {
	return func(yield func(int) bool) {
		tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
		threads, _ := os.ReadDir(tasks)
		for _, thread := range threads {
			children, _ := os.ReadFile(tasks + thread.Name() + "/children")
			for child := range strings.FieldsSeq(string(children)) {
				if n, err := strconv.Atoi(child); err == nil && !yield(n) {
					return
				}
			}
		}
	}
}

// holdSpace sets the limits of everything but CPU time.
func (l Limits) holdSpace(pid int) error {
	err := limit(pid, unix.RLIMIT_CORE, 0, 0)
	for _, one := range []struct {
		resource int
		most     int64
	}{{unix.RLIMIT_DATA, l.Memory}, {unix.RLIMIT_FSIZE, l.Files}, {unix.RLIMIT_NOFILE, int64(l.OpenFiles)}} {
		if one.most > 0 {
			err = errors.Join(err, limit(pid, one.resource, uint64(one.most), uint64(one.most)))
		}
	}
	return err
}

// holdCPU sets the limit of CPU time of a process that has used some. A negative grace sets no hard limit.
func (l Limits) holdCPU(pid int, used, grace time.Duration) error {
	if l.CPUTime <= 0 {
		return nil
	}
	soft, hard := l.cpuSeconds(used), uint64(unix.RLIM_INFINITY)
	if grace >= 0 {
		hard = soft + uint64(grace/time.Second)
	}
	return limit(pid, unix.RLIMIT_CPU, soft, hard)
}

// limit sets one limit, as far as the hard limit that the process has inherited allows.
func limit(pid, resource int, soft, hard uint64) error {
	err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: soft, Max: hard}, nil)
	if errors.Is(err, unix.EPERM) {
		var inherited unix.Rlimit
		if err = unix.Prlimit(pid, resource, nil, &inherited); err == nil {
			hard = min(hard, inherited.Max)
			err = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(soft, hard), Max: hard}, nil)
		}
	}
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	return os.NewSyscallError("prlimit", err)
}
