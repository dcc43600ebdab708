package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stopTime is how long a process may take to stop at the end of its execve. Only the file system delays it.
const stopTime = time.Minute

// startTraced starts a process that has its limits before its first instruction: a limit that is set later does not hold for what the
// process forks at that moment. The process requests to be traced, so that its execve ends with a SIGTRAP, which stops it; a script stops
// once, in its interpreter. Then it gets its limits and is detached. If the operator ends before that, the SIGTRAP ends the process.
// Set-user-ID and file capabilities of the file itself have no effect under a tracer without CAP_SYS_PTRACE.
func startTraced(l Limits, grace time.Duration, path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	traced, sys := *attr, *attr.Sys
	sys.Ptrace = true
	traced.Sys = &sys
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	// Any signal stops a traced process. One before the execve would block the operator forever, because its thread waits for the execve
	// (vfork): kill -1 of a hook is enough. So the process inherits a mask of signals, which it loses at the stop.
	var mask unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, allButTrap(), &mask); err != nil {
		return 0, os.NewSyscallError("sigprocmask", err)
	}
	pid, _, err = syscall.StartProcess(path, argv, &traced)
	if back := unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil); back != nil {
		err = errors.Join(err, back)
	}
	if err != nil {
		return pid, err
	}
	if err := waitForStop(pid); err != nil {
		return pid, err
	}
	if err := errors.Join(l.set(pid, grace), setMask(pid, &mask)); err != nil {
		return pid, err
	}
	// Signals that arrived meanwhile are still pending.
	if err := syscall.PtraceDetach(pid); err != nil && !errors.Is(err, syscall.ESRCH) { // ESRCH: it has been killed
		return pid, os.NewSyscallError("ptrace", err)
	}
	return pid, nil
}

// allButTrap are all signals but SIGTRAP.
func allButTrap() *unix.Sigset_t {
	var set unix.Sigset_t
	for i := range set.Val {
		set.Val[i] = ^set.Val[i]
	}
	set.Val[0] &^= 1 << (unix.SIGTRAP - 1)
	return &set
}

// setMask sets the signals that a traced process blocks. The kernel wants the size of its own mask.
func setMask(pid int, mask *unix.Sigset_t) error {
	const size = 8
	_, _, err := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SETSIGMASK, uintptr(pid), size, uintptr(unsafe.Pointer(mask)), 0, 0)
	if err != 0 && err != unix.ESRCH { // ESRCH: it has been killed
		return os.NewSyscallError("ptrace", err)
	}
	return nil
}

// waitForStop waits until a traced process has stopped or ended. It kills one that does not stop: a process without limits must not run
// on, and nothing reads its output meanwhile.
func waitForStop(pid int) error {
	killed := make(chan struct{})
	late := time.AfterFunc(stopTime, func() {
		defer close(killed)
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	})
	err := waitFor(pid, unix.WEXITED|unix.WSTOPPED)
	if !late.Stop() {
		<-killed
		return errors.Join(err, fmt.Errorf("the process has not stopped at its start within %s", stopTime))
	}
	return os.NewSyscallError("waitid", err)
}
