package process

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of Rusage.Maxrss in bytes.
const rssUnit = 1024

// waitid waits until a child has ended without reaping it, so that its pid is not reused before reap.
func waitid(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// hasEnded reports whether a child has ended and is not reaped.
func hasEnded(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// endOf signals the end of a child.
func endOf(pid int) (*signal, error) {
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		return &signal{fd: fd}, nil
	}
	return signalEnd(pid) // the kernel is older than 5.3, or a seccomp profile forbids it
}

// pipe makes a pipe with close-on-exec.
func pipe() (read, write int, err error) {
	ends := [2]int{-1, -1}
	err = unix.Pipe2(ends[:], unix.O_CLOEXEC)
	return ends[0], ends[1], os.NewSyscallError("pipe2", err)
}

// socketpair makes two connected sockets with close-on-exec.
func socketpair() (ours, theirs int, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, os.NewSyscallError("socketpair", err)
	}
	return ends[0], ends[1], nil
}
