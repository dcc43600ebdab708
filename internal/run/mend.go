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
	// file is open, so that the kernel tells when it has been removed.
	file openFile
}

// Remember makes the workspace keep what is in it now. A hook that removes more than its own files, or a cleaner of
// temporary directories, then disturbs no later run.
func (w *Workspace) Remember() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remembered = map[string]*remembered{}
	return filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == lockName {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := openAt(path, syscall.O_RDONLY)
		w.remembered[path] = &remembered{content, info.Mode().Perm(), file}
		return err
	})
}

// damaged tells that something of the workspace has been removed. It does not look at paths, as mend does: that costs the
// kernel several times as much.
func (w *Workspace) damaged() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if openFile(w.lock.Fd()).removed() {
		return true
	}
	for _, file := range w.remembered {
		if file.file.removed() {
			return true
		}
	}
	return false
}

// removed tells that a file has no name any more.
func (f openFile) removed() bool {
	var stat syscall.Stat_t
	return syscall.Fstat(int(f), &stat) != nil || stat.Nlink == 0
}

// mend makes again what is missing of the workspace.
func (w *Workspace) mend() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	lock := filepath.Join(w.dir, lockName)
	if _, err := sizeOf(lock); w.lock == nil || errors.Is(err, fs.ErrNotExist) {
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
	for path, file := range w.remembered {
		if size, err := sizeOf(path); size < 0 && errors.Is(err, fs.ErrNotExist) {
			err := os.MkdirAll(filepath.Dir(path), 0o700)
			if err == nil {
				err = os.WriteFile(path, file.content, file.mode)
			}
			if err != nil {
				return fmt.Errorf("cannot make a file for hooks again: %w", err)
			}
		}
		if file.file.removed() {
			file.file.close()
			file.file, _ = openAt(path, syscall.O_RDONLY)
		}
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
