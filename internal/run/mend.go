package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// remembered is a file that can be made again.
type remembered struct {
	content []byte
	mode    os.FileMode
}

// Remember makes the workspace keep what is in it now. A hook that removes more than its own files, or a cleaner of
// temporary directories, then disturbs no later run.
func (w *Workspace) Remember() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remembered, w.directories = map[string]remembered{}, map[string]directory{}
	return filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == lockName {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		w.remembered[path] = remembered{content, info.Mode().Perm()}
		if dir := filepath.Dir(path); dir != w.dir { // that one changes with every run
			w.directories[dir] = directory{}
		}
		return err
	})
}

// damaged tells that something of the workspace may have been removed. Where nothing has happened in a directory, nothing is
// missing, so it looks at few paths.
func (w *Workspace) damaged() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if missing(filepath.Join(w.dir, lockName)) {
		return true
	}
	for path, before := range w.directories {
		if now, err := directoryAt(path); err != nil || now != before || !now.settled() {
			return true
		}
	}
	for path := range w.remembered {
		if filepath.Dir(path) == w.dir && missing(path) {
			return true
		}
	}
	return false
}

func missing(path string) bool {
	size, err := sizeOf(path)
	return size < 0 && errors.Is(err, fs.ErrNotExist)
}

// mend makes again what is missing of the workspace.
func (w *Workspace) mend() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	lock := filepath.Join(w.dir, lockName)
	if w.lock == nil || missing(lock) {
		if err := os.MkdirAll(w.dir, 0o700); err != nil {
			return fmt.Errorf("cannot make the private directory for runs: %w", err)
		}
		again, err := lockFile(lock, os.O_CREATE)
		if err != nil {
			return fmt.Errorf("cannot lock the private directory for runs: %w", err)
		}
		if w.lock != nil {
			w.lock.Close()
		}
		w.lock = again
	}
	// What happens from here on is noticed the next time.
	before := make(map[string]directory, len(w.directories))
	for path := range w.directories {
		before[path], _ = directoryAt(path)
	}
	for path, file := range w.remembered {
		if missing(path) {
			err := os.MkdirAll(filepath.Dir(path), 0o700)
			if err == nil {
				err = os.WriteFile(path, file.content, file.mode)
			}
			if err != nil {
				return fmt.Errorf("cannot make a file for hooks again: %w", err)
			}
		}
	}
	for path, state := range before {
		w.directories[path] = state
	}
	return nil
}

// sizeOf is the size of a regular file, and 0 with an error for what is none. It makes less garbage than package os,
// and each run asks for many files.
func sizeOf(path string) (int64, error) {
	var stat syscall.Stat_t
	for {
		switch err := syscall.Lstat(path, &stat); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return -1, err
		case stat.Mode&syscall.S_IFMT != syscall.S_IFREG:
			return 0, errNoFile
		default:
			return stat.Size, nil
		}
	}
}

var errNoFile = errors.New("no regular file")
