package run

import "golang.org/x/sys/unix"

// pristine tells that a file is empty, that it is as it was made, and that nobody else can write into it: it has one name,
// and nobody has it open.
func pristine(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	// The kernel gives this lease only to the one who alone has the file open.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	var stat unix.Stat_t
	return unix.Fstat(fd, &stat) == nil && stat.Mode == unix.S_IFREG|0o600 && stat.Nlink == 1 && stat.Size == 0
}
