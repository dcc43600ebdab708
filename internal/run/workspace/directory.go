package workspace

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"golang.org/x/sys/unix"
)

// directory is a private directory of this process. Its lock is held as long as the process lives.
type directory struct {
	path  string
	lock  *os.File
	owner uint32
}

const (
	prefix   = "operator-"
	lockName = "lock"
	// lockText marks a directory as one that may be removed when its lock is free.
	lockText = "private directory of shell-operator\n"
)

// names are those that os.MkdirTemp makes from prefix.
var names = regexp.MustCompile(`^` + prefix + `[0-9]+$`)

func makeDirectory(parent string) (*directory, error) {
	path, err := os.MkdirTemp(parent, prefix) // mode 0700
	if err != nil {
		return nil, fmt.Errorf("cannot make a private directory: %w", err)
	}
	d := &directory{path: path}
	return d, d.restore()
}

// restore makes the directory and its lock again if they are missing.
func (d *directory) restore() error {
	if missing(d.path) {
		if err := os.MkdirAll(d.path, 0o700); err != nil {
			return fmt.Errorf("cannot make the private directory again: %w", err)
		}
	}
	var stat unix.Stat_t // once a cleaner has removed the directory, another user can create it
	if err := unix.Lstat(d.path, &stat); err != nil {
		return fmt.Errorf("cannot use the private directory: %w", err)
	}
	path := filepath.Join(d.path, lockName)
	switch {
	case d.lock == nil:
		d.owner = stat.Uid
	case stat.Uid != d.owner:
		return fmt.Errorf("the user with the id %d has replaced the private directory %s: remove it, or restart the operator", stat.Uid, d.path)
	case !missing(path):
		return nil
	}
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil && !locked(lock) {
		err = fmt.Errorf("another process holds %s", path)
	}
	if err == nil {
		_, err = lock.WriteString(lockText)
	}
	if err != nil {
		lock.Close() // nil has a Close, too
		return fmt.Errorf("cannot lock the private directory: %w", err)
	}
	if d.lock != nil {
		d.lock.Close()
	}
	d.lock = lock
	return nil
}

func locked(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// sweep removes the private directories of killed operators. The parent may be shared, so an os.Root keeps links that
// others put there, even while sweep runs, from leading out of it.
func sweep(parent string, log *slog.Logger) {
	root, err := os.OpenRoot(parent)
	if err != nil {
		return
	}
	defer root.Close()
	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, entry := range entries {
		if !entry.IsDir() || !names.MatchString(entry.Name()) {
			continue
		}
		path := slog.String("directory", filepath.Join(parent, entry.Name()))
		switch abandoned, err := removeAbandoned(root, entry.Name()); {
		case err != nil:
			log.Warn("Cannot remove a directory that a killed operator left", path, slog.String("error", err.Error()))
		case abandoned:
			log.Info("Removed a directory that a killed operator left", path)
		}
	}
}

// removeAbandoned removes a directory if a killed operator has provably left it: name, owner and mode are right, and it
// has a lock with our text, which is free. The lock goes last: if a hook of the killed operator still writes files, the
// next sweep finds the rest.
func removeAbandoned(root *os.Root, name string) (abandoned bool, err error) {
	dir, err := root.OpenRoot(name)
	if err != nil {
		return false, nil //nolint:nilerr // it belongs to another user, or has gone
	}
	defer dir.Close()
	if info, err := dir.Stat("."); err != nil || !private(info) {
		return false, nil //nolint:nilerr // as above
	}
	if info, err := dir.Lstat(lockName); err != nil || !info.Mode().IsRegular() {
		return false, nil //nolint:nilerr // not ours
	}
	lock, err := dir.OpenFile(lockName, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, nil //nolint:nilerr // as above
	}
	defer lock.Close()
	text := make([]byte, len(lockText)+1)
	if n, _ := io.ReadFull(lock, text); string(text[:n]) != lockText || !locked(lock) {
		return false, nil
	}
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return true, err
	}
	for _, entry := range entries {
		if entry.Name() != lockName {
			if err := removeTree(dir, entry.Name()); err != nil {
				return true, err
			}
		}
	}
	return true, root.RemoveAll(name)
}

// private reports whether a directory belongs to the operator's user and no other user can enter it.
func private(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode() == fs.ModeDir|0o700 && int(stat.Uid) == os.Geteuid()
}
