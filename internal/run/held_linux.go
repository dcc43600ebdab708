package run

import (
	"time"

	"golang.org/x/sys/unix"
)

// alone calls then while nobody else can open the file, if nobody has it open and it is private.
func (f openFile) alone(then func(size int64) bool) bool {
	// The kernel gives this lease only to the one who alone has the file open.
	if _, err := unix.FcntlInt(uintptr(f), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	size, ok := f.private()
	ok = ok && then(size)
	_, err := unix.FcntlInt(uintptr(f), unix.F_SETLEASE, unix.F_UNLCK)
	return ok && err == nil
}

// directory is what changes when files are made, removed or renamed in a directory, or when another one takes its place.
type directory struct {
	device, inode uint64
	mode          uint32
	changed       unix.Timespec
}

func directoryAt(path string) (directory, error) {
	var stat unix.Stat_t
	err := unix.Lstat(path, &stat)
	return directory{uint64(stat.Dev), stat.Ino, stat.Mode, stat.Mtim}, err //nolint:unconvert // other machines have other types
}

// settled tells that the time of the next change will be another one: file systems count some milliseconds as one moment.
func (d directory) settled() bool {
	return time.Since(time.Unix(d.changed.Unix())) > 100*time.Millisecond
}
