package event

import (
	"errors"
	"os"
	"syscall"
)

// Flags of fallocate.
const (
	keepSize  = 0x1
	punchHole = 0x2
)

// punch returns n bytes of a file at an offset to the disk. Not every file system can do that. The file may be closed meanwhile.
func punch(f *os.File, at, n int64) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(conn.Control(func(fd uintptr) {
		for again := true; again; again = errors.Is(err, syscall.EINTR) {
			err = syscall.Fallocate(int(fd), punchHole|keepSize, at, n)
		}
	}), err)
}
