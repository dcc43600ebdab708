package run

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openFile is the descriptor of an open file. Package os needs twice the system calls to open one, and makes garbage.
type openFile int

const noFile openFile = -1

// openAt opens a file that is there already, and never waits for anybody.
func openAt(path string, flags int) (openFile, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return noFile, &os.PathError{Op: "open", Path: path, Err: err}
		default:
			return openFile(fd), nil
		}
	}
}

func (f openFile) close() {
	if f != noFile {
		_ = unix.Close(int(f))
	}
}

func (f openFile) Write(p []byte) (written int, err error) {
	for written < len(p) {
		n, err := unix.Write(int(f), p[written:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return written, err
		case n == 0:
			return written, io.ErrUnexpectedEOF
		}
		written += n
	}
	return written, nil
}

// rewind lets the next write go to the beginning.
func (f openFile) rewind() error {
	_, err := unix.Seek(int(f), 0, io.SeekStart)
	return err
}

func (f openFile) truncate(size int64) error {
	for {
		if err := unix.Ftruncate(int(f), size); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (f openFile) size() (int64, error) {
	var stat unix.Stat_t
	err := unix.Fstat(int(f), &stat)
	return stat.Size, err
}

// private tells that a file is as it was made but for what is in it, and has no other name.
func (f openFile) private() (size int64, ok bool) {
	var stat unix.Stat_t
	if unix.Fstat(int(f), &stat) != nil || stat.Mode != unix.S_IFREG|0o600 || stat.Nlink != 1 {
		return 0, false
	}
	return stat.Size, true
}
