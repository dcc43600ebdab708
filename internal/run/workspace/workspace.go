// Package workspace keeps the files of runs: it creates them, reads what a hook wrote, and deletes them.
//
// Callers may rely on this:
//   - Each run has a directory of its own, with mode 0700, under a name that no other run has.
//   - Delete removes everything in that directory, and only there.
//   - Outputs returns for whatever a hook has put in the place of its files, and reads at most 256 MiB of each.
//   - Files that Protect has recorded are written again if a hook or a cleaner of temporary files removes them.
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
	// Keep disables every removal.
	Keep bool
	Log  *slog.Logger
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
}

// protected is a file that Create writes again when it is missing.
type protected struct {
	content []byte
	mode    fs.FileMode
}

// Open makes the private directories, and removes those that killed operators left beside them.
func Open(o Options) (*Workspace, error) {
	w := &Workspace{keep: o.Keep, log: o.Log}
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
	err := os.RemoveAll(d.path)
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
		w.protected[path] = protected{content, info.Mode().Perm()}
		return err
	})
}

// Create makes the directory and the empty output files of a run. The id must be unique in this process.
func (w *Workspace) Create(hookName, id string) (*Files, error) {
	if err := w.restore(); err != nil {
		return nil, err
	}
	f := filesIn(filepath.Join(w.runs.path, "hook-"+safe(hookName)+"-"+id))
	if err := f.create(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot create the files of a run: %w", err), os.RemoveAll(f.dir))
	}
	return f, nil
}

// restore makes what is missing of the private directories.
func (w *Workspace) restore() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range []*directory{w.main, w.runs} {
		if err := d.restore(); err != nil {
			return err
		}
	}
	for path, file := range w.protected {
		if !missing(path) {
			continue
		}
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, file.content, file.mode)
		}
		if err != nil {
			return fmt.Errorf("cannot restore a file that hooks use: %w", err)
		}
	}
	return nil
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
