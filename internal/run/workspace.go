package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Workspace is a private directory of this process below the temp directory. Each run gets its own
// directory in it, which nobody finds there any more when the run has ended.
type Workspace struct {
	dir  string
	keep bool

	// last numbers the directories.
	last atomic.Int64

	mu   sync.Mutex
	lock *os.File
	// spare are the files of runs that have ended, to be used again.
	spare []*files
	kept  keptContexts
	// closed is true when nothing is kept any more.
	closed bool
	// remembered are the files that hooks find there beside those of their run, by path.
	remembered map[string]remembered
	// directories are where they are below this one, as they were when nothing was missing.
	directories map[string]directory
}

const (
	workspacePrefix = "operator-"
	lockName        = "lock"
)

// OpenWorkspace makes a workspace below dir, and removes those that dead processes have left behind.
// With keep nothing is ever removed.
func OpenWorkspace(dir string, keep bool) (*Workspace, error) {
	if !keep {
		sweep(dir)
	}
	own, err := os.MkdirTemp(dir, workspacePrefix) // mode 0700
	if err != nil {
		return nil, fmt.Errorf("cannot make a private directory for runs: %w", err)
	}
	w := &Workspace{dir: own, keep: keep}
	if err := w.mend(); err != nil {
		return nil, err
	}
	return w, nil
}

// lockFile opens a file and locks it, unless another process has.
func lockFile(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes workspaces whose lock nobody holds. What it cannot remove it leaves: another operator,
// or another user, may share the directory.
func sweep(dir string) {
	// Others may have put links there, or put one in the place of a directory while this works: a Root follows none
	// that leads out.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), workspacePrefix) {
			removeDead(root, entry.Name())
		}
	}
}

// removeDead removes a workspace of a dead operator, the lock at last: as long as a hook of it lives and writes files,
// something may be left, and whoever sweeps next has to find it.
func removeDead(root *os.Root, name string) {
	dir, err := root.OpenRoot(name)
	if err != nil {
		return
	}
	defer dir.Close()
	lock, err := dir.OpenFile(lockName, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// One that was killed before it made its lock has an empty directory.
		if info, err := root.Lstat(name); err == nil && time.Since(info.ModTime()) > time.Minute {
			_ = root.Remove(name) // not if there is anything in it
		}
		return
	}
	if err != nil {
		return
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return
	}
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.Name() != lockName && dir.RemoveAll(entry.Name()) != nil {
			return
		}
	}
	_ = root.RemoveAll(name)
}

// Dir is the directory itself, for other private files of the process.
func (w *Workspace) Dir() string { return w.dir }

// Close removes the workspace.
func (w *Workspace) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.lock.Close()
	w.closed = true
	for _, f := range w.spare {
		f.letGo()
	}
	if w.kept.expiry != nil {
		w.kept.expiry.Stop()
	}
	if w.keep {
		return nil
	}
	err := os.RemoveAll(w.dir)
	sweep(filepath.Dir(w.dir)) // what hooks of a dead operator still used at the start
	return err
}

// next returns the files of a directory that has never been before.
func (w *Workspace) next(prefix string) *files {
	return filesIn(w.name(prefix))
}

// name is a path in the workspace that has never been before.
func (w *Workspace) name(prefix string) string {
	return filepath.Join(w.dir, prefix+strconv.FormatInt(w.last.Add(1), 10))
}

// open makes the directory and the empty files of a run. When it fails nothing is left.
func (w *Workspace) open(hookName string) (*files, error) {
	if w.damaged() {
		if err := w.mend(); err != nil {
			return nil, err
		}
	}
	prefix := "hook-" + safe(hookName) + "-"
	if f := w.reuse(prefix); f != nil {
		return f, nil
	}
	if f, err := w.make(prefix); err == nil {
		return f, nil
	}
	if err := w.mend(); err != nil {
		return nil, err
	}
	return w.make(prefix)
}

// make makes new files.
func (w *Workspace) make(prefix string) (*files, error) {
	f := w.next(prefix)
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of a run: %w", err)
	}
	for _, path := range f.all() {
		if err := makeEmpty(path); err != nil {
			_ = f.remove()
			return nil, fmt.Errorf("cannot make a file of a run: %w", err)
		}
	}
	return f, nil
}
