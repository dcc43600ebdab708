package process

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of the peak memory that the kernel tells, in bytes.
const rssUnit = 1

// waitid waits until a child has ended, without taking its status, as on Linux. The call of that name also returns here
// when a process is stopped, so the kernel's events of processes are used.
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
			continue // adding it once more changes nothing
		case errors.Is(err, unix.ESRCH):
			return nil // it has ended already, and waits for its status to be taken
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

// pipe makes a pipe, and readies for waiting only the end that we read.
func pipe() (read *os.File, write int, err error) {
	var ends [2]int
	syscall.ForkLock.RLock()
	if err = unix.Pipe(ends[:]); err == nil {
		unix.CloseOnExec(ends[0])
		unix.CloseOnExec(ends[1])
	}
	syscall.ForkLock.RUnlock()
	if err == nil {
		if err = unix.SetNonblock(ends[0], true); err == nil {
			return os.NewFile(uintptr(ends[0]), "|0"), ends[1], nil
		}
		_, _ = unix.Close(ends[0]), unix.Close(ends[1])
	}
	return nil, -1, os.NewSyscallError("pipe", err)
}
