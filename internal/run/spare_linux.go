package run

import "golang.org/x/sys/unix"

// pristine tells that a file is empty, and else as sole says.
func pristine(path string) bool {
	size, ok := private(path)
	return ok && size == 0
}

// sole tells that a file is as it was made but for what is in it, and that nobody else can read it or write into it: it has
// one name, and nobody has it open.
func sole(path string) bool {
	_, ok := private(path)
	return ok
}

func private(path string) (size int64, ok bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	// The kernel gives this lease only to the one who alone has the file open.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return 0, false
	}
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || stat.Mode != unix.S_IFREG|0o600 || stat.Nlink != 1 {
		return 0, false
	}
	return stat.Size, true
}
