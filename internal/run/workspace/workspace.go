// Package workspace keeps the files of runs: it creates them, reads what a hook wrote, and deletes them.
//
// Callers may rely on this:
//   - Each run has a directory of its own, with mode 0700, under a name that no other run has and that other hooks do not know.
//   - With Options.Homes, each hook has a home directory of its own, which is kept until Leave or Close.
//   - Delete removes everything in that directory, and only there.
//   - Outputs returns for whatever a hook has put in the place of its files, and reads at most 256 MiB of each.
//   - Files that Protect has recorded are written again, before the next run, if a hook or a cleaner of temporary files has changed or
//     removed them.
//   - Directories that a killed operator left are removed by the next one; directories of others are not touched.
package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Options of a Workspace.
type Options struct {
	// Dir is the parent of the private directory. RunDir, if set, is the parent of the one for the files of runs.
	Dir, RunDir string
	// Keep disables every removal, and lets users list the directories of runs.
	Keep bool
	// Homes gives each hook a home directory.
	Homes bool
	Log   *slog.Logger
}

// Workspace is a private directory of this process, and the files of runs in it.
type Workspace struct {
	keep bool
	log  *slog.Logger

	mu   sync.Mutex // guards what follows
	main *directory
	// runs is main unless Options.RunDir is set.
	runs      *directory
	protected map[string]protected
	// homes are the names of the home directories of hooks, by hook; nil without them.
	homes map[string]string

	// removals are the home directories that are being removed.
	removals sync.WaitGroup
}

// protected is a file that Create writes again when it has been changed or removed.
type protected struct {
	content []byte
	mode    fs.FileMode
	state   fileState
}

// fileState changes with each write, rename or change of the mode: no ordinary user can set the time of the last change.
type fileState struct {
	device, inode     uint64
	size              int64
	modified, changed unix.Timespec
}

// sameContent reports whether a program has at most changed the mode of the file in between.
func (s fileState) sameContent(then fileState) bool {
	s.changed = then.changed
	return s == then
}

// stateOf returns the zero state for what is no regular file. It is called for a dozen files before each run, and os.Lstat makes garbage.
func stateOf(path string) (s fileState) {
	var stat unix.Stat_t
	if unix.Lstat(path, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return s
	}
	return fileState{uint64(stat.Dev), stat.Ino, stat.Size, stat.Mtim, stat.Ctim}
}

// Open makes the private directories, and removes those that killed operators left beside them.
func Open(o Options) (*Workspace, error) {
	w := &Workspace{keep: o.Keep, log: o.Log}
	if o.Homes {
		w.homes = map[string]string{}
	}
	var err error
	if w.main, err = w.open(o.Dir); err != nil {
		return nil, err
	}
	w.runs = w.main
	if o.RunDir != "" && o.RunDir != o.Dir {
		if w.runs, err = w.open(o.RunDir); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

func (w *Workspace) open(parent string) (*directory, error) {
	if !w.keep {
		sweep(parent, w.log)
	}
	return makeDirectory(parent)
}

// Dir is the private directory, for other files of the process. The files of runs may be elsewhere.
func (w *Workspace) Dir() string { return w.main.path }

// Close removes the private directories, and what Open could not remove because a hook of a killed operator still used it.
func (w *Workspace) Close() error {
	w.removals.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.close(w.main)
	if w.runs != nil && w.runs != w.main {
		err = errors.Join(err, w.close(w.runs))
	}
	return err
}

func (w *Workspace) close(d *directory) error {
	defer d.lock.Close()
	if w.keep {
		return nil
	}
	parent, err := os.OpenRoot(filepath.Dir(d.path))
	switch {
	case err == nil:
		err = removeTree(parent, filepath.Base(d.path))
		parent.Close()
	case errors.Is(err, fs.ErrNotExist): // a cleaner of temporary files has been faster
		err = nil
	}
	sweep(filepath.Dir(d.path), w.log)
	return err
}

// Protect records the files that are in Dir now.
func (w *Workspace) Protect() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.protected = map[string]protected{}
	return filepath.WalkDir(w.main.path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == lockName {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		w.protected[path] = protected{content, info.Mode().Perm(), stateOf(path)}
		return err
	})
}

// Create makes the directory and the empty output files of a run. The id must be unique in this process.
func (w *Workspace) Create(hookName, id string) (*Files, error) {
	own, err := w.Prepare(hookName)
	if err != nil {
		return nil, err
	}
	f := filesIn(filepath.Join(w.runs.path, runsName, "hook-"+safe(hookName)+"-"+id+w.unguessable()), own)
	if err := f.create(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot create the files of a run: %w", err), f.remove())
	}
	return f, nil
}

// restore makes what is missing of the private directories, or was changed. Callers hold mu.
func (w *Workspace) restore() error {
	for _, d := range []*directory{w.main, w.runs} {
		if err := d.restore(); err != nil {
			return err
		}
	}
	hidden := []string{filepath.Join(w.runs.path, runsName)}
	if w.homes != nil {
		hidden = append(hidden, filepath.Join(w.main.path, homesName))
	}
	mode := hiddenMode
	if w.keep { // people list them
		mode = 0o700
	}
	for _, path := range hidden {
		if err := ensure(path, mode, "a directory for hooks"); err != nil {
			return err
		}
	}
	for path, file := range w.protected {
		if stateOf(path) == file.state {
			continue
		}
		if err := w.rewrite(path, file); err != nil {
			return fmt.Errorf("cannot restore a file that hooks use: %w", err)
		}
		file.state = stateOf(path)
		w.protected[path] = file
	}
	return nil
}

// rewrite writes a protected file in one step: runs of other hooks may be reading it. Links that a hook has put in place of directories are
// removed.
func (w *Workspace) rewrite(path string, file protected) error {
	root, err := os.OpenRoot(w.main.path)
	if err != nil {
		return err
	}
	defer root.Close()
	name, err := filepath.Rel(w.main.path, path)
	if err != nil {
		return err
	}
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if info, err := root.Lstat(dir); err == nil && !info.IsDir() {
			if err := root.Remove(dir); err != nil {
				return err
			}
		}
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		if err := removeTree(root, name); err != nil {
			return err
		}
	}
	next := name + w.unguessable() + ".new"
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if err := root.WriteFile(next, file.content, file.mode); err != nil {
		return err
	}
	return root.Rename(next, name)
}

// missing is called for a dozen files before each run, and os.Lstat makes garbage.
func missing(path string) bool { return errors.Is(unix.Access(path, unix.F_OK), fs.ErrNotExist) }

// Delete removes the files of a run.
func (w *Workspace) Delete(f *Files) error {
	if w.keep {
		return nil
	}
	return f.remove()
}
