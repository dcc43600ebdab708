package timerslack

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Again executes the program once more. It returns if that is of no use or somebody forbids it. Nothing may have been begun
// that does not outlive it.
func (i Image) Again() {
	if !i.first {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || slack <= 0 || time.Duration(slack) >= lazy {
		return // real-time threads have none; somebody may have chosen more
	}
	// By its path, because a process is called after the last element of that.
	program, err := os.Executable()
	if err != nil {
		return
	}
	Set(lazy)
	defer Set(time.Duration(slack))
	defer keepFiles()()
	_ = syscall.Exec(program, os.Args, append(os.Environ(), Variable+"="+strconv.Itoa(slack)))
}

// keepFiles returns what sets the limit of open files to what it is now. Exec sets it to what the process was started with,
// even if it fails then.
func keepFiles() (restore func()) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return func() {}
	}
	return func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }
}

// Set gives the calling thread a timer slack, which the processes and threads that it starts inherit. 0 leaves it as it is.
func Set(slack time.Duration) {
	if slack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
	}
}
