package process

import (
	"errors"

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
