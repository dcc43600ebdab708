package process

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of the peak memory that the kernel tells, in bytes.
const rssUnit = 1024

// waitid waits until a child has ended, without taking its status: its number is not given to another
// process before os.Process.Wait does so.
func waitid(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// pipe makes a pipe, and readies for waiting only the end that we read: package os readies both, and asks for their modes.
func pipe() (read *os.File, write int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, -1, os.NewSyscallError("pipe2", err)
	}
	read = os.NewFile(uintptr(ends[0]), "|0")
	// Hooks do not expect that they cannot write now.
	if err := unix.SetNonblock(ends[1], false); err != nil {
		_, _ = read.Close(), unix.Close(ends[1])
		return nil, -1, os.NewSyscallError("fcntl", err)
	}
	return read, ends[1], nil
}
