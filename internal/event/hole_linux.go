package event

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// punch returns n bytes of a file at an offset to the disk, on a file system that can do that. The file may be closed meanwhile.
func punch(f *os.File, at, n int64) {
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		for again := true; again; again = errors.Is(err, unix.EINTR) {
			err = unix.Fallocate(int(fd), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
		}
	})
}
