package process

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of Rusage.Maxrss in bytes.
const rssUnit = 1

// waitid waits until a child has ended without reaping it, as on Linux. The system call of that name also returns here when a
// process is stopped, so this uses kqueue.
func waitid(pid int) error {
	queue, err := unix.Kqueue()
	if err != nil {
		return err
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)
	var exit unix.Kevent_t
	unix.SetKevent(&exit, pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	exit.Fflags = unix.NOTE_EXIT
	changes, events := []unix.Kevent_t{exit}, make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(queue, changes, events, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue // adding the event again changes nothing
		case errors.Is(err, unix.ESRCH):
			return nil // it is already a zombie
		case err != nil:
			return err
		case n == 0:
			continue
		case events[0].Flags&unix.EV_ERROR == 0 || unix.Errno(events[0].Data) == unix.ESRCH:
			return nil
		default:
			return unix.Errno(events[0].Data)
		}
	}
}

// hasEnded does not know it here: a process whose end is noticed too late is taken for one that was ended.
func hasEnded(int) bool { return false }

// endOf signals the end of a child.
func endOf(pid int) (*signal, error) { return signalEnd(pid) }

// pipe makes a pipe with close-on-exec.
func pipe() (read, write int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		return -1, -1, os.NewSyscallError("pipe", err)
	}
	unix.CloseOnExec(ends[0])
	unix.CloseOnExec(ends[1])
	return ends[0], ends[1], nil
}

// socketpair makes two connected sockets with close-on-exec.
func socketpair() (ours, theirs int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, -1, os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(ends[0])
	unix.CloseOnExec(ends[1])
	return ends[0], ends[1], nil
}
