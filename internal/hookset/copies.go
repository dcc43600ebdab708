package hookset

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// CopiedFiles tell whether files are still what they were.
type CopiedFiles interface {
	// Changed returns the path of a file below the directory that is not what it was, or nothing.
	Changed() string
	// Same tells whether one file is what it was.
	Same(path string) bool
}

// CopiesOptions of New. All but Limit and Untold are required.
type CopiesOptions struct {
	// Dir is a private directory, in which copies are made.
	Dir string
	Log *slog.Logger
	// Limit is how large a copy may be; 0 means 256 MiB.
	Limit int64
	// Untold, if set, is called when a run has seen a change before Look was called. It must return at once.
	Untold func()
}

// Copies are the files of the set of hooks that is in force.
type Copies struct {
	opts CopiesOptions

	mu sync.Mutex // guards what follows
	// current is never nil.
	current *Copy
	// differ tells that the files are not those of the current set.
	differ bool
	warned bool
	copies int
}

// Copy is a copy of the files of a set of hooks, if there is one.
type Copy struct {
	// root is the hooks directory without links, dir its copy or empty.
	root, dir string
	files     CopiedFiles
	// runs is how many runs use it.
	runs int
}

// New returns Hooks without any.
func NewCopies(o CopiesOptions) *Copies {
	if o.Limit == 0 {
		o.Limit = 256 << 20
	}
	if o.Untold == nil {
		o.Untold = func() {}
	}
	return &Copies{opts: o, current: &Copy{}}
}

// Copy copies the hooks directory. The files are as they were before anything of them was read; if they have changed
// meanwhile, complete is false and there is no copy.
func (k *Copies) Copy(dir string, files CopiedFiles) (c *Copy, complete bool) {
	root, err := filepath.EvalSymlinks(dir)
	c = &Copy{root: root, files: files}
	if err == nil {
		c.dir = k.name()
		err = copyDirectory(root, c.dir, k.opts.Limit)
		if err == nil && !k.executable() {
			err = errors.Join(errNotExecutable, os.RemoveAll(c.dir))
		}
	}
	if files.Changed() != "" {
		k.remove(c.dir)
		c.dir = ""
		return c, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		c.dir = ""
		if !k.warned {
			k.opts.Log.Warn("No copy of the hooks is kept: while they are loaded anew, and while that fails, hooks run from files that have changed",
				"path", dir, "error", err.Error())
		}
	}
	k.warned = err != nil
	return c, true
}

func (k *Copies) name() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.copies++
	return filepath.Join(k.opts.Dir, "hooks-as-loaded-"+strconv.Itoa(k.copies))
}

var errNotExecutable = errors.New("nothing can be executed in the temp directory, the file system is mounted with noexec: choose another one with --tmp-dir")

// executable tells whether files can be executed where copies are. The system says no to everybody, root included, where the
// file system does not allow it.
func (k *Copies) executable() bool {
	f, err := os.CreateTemp(k.opts.Dir, "executable-")
	if err != nil {
		return false
	}
	defer os.Remove(f.Name())
	const mayExecute = 1
	err = errors.Join(f.Chmod(0o700), f.Close())
	return err == nil && syscall.Access(f.Name(), mayExecute) == nil
}

// Use puts the files of another set in force. No run of hooks that differ between the two may be about to take its files.
func (k *Copies) Use(c *Copy) {
	k.mu.Lock()
	old := k.current
	k.current, k.differ = c, false
	k.look()
	unused := old != c && old.runs == 0
	k.mu.Unlock()
	if unused {
		k.remove(old.dir)
	}
}

// Differ tells whether the files are known not to be those of the set in force.
func (k *Copies) Differ() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.differ
}

// Look looks whether the files are those of the set in force.
func (k *Copies) Look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look()
}

// look is Look. The caller holds mu.
func (k *Copies) look() {
	if k.current.dir == "" {
		return
	}
	path := k.current.files.Changed()
	if path != "" && !k.differ {
		k.opts.Log.Info("Files of hooks have changed: hooks run from a copy of what was loaded until the files are loaded anew", "path", path)
	}
	k.differ = path != ""
}

// Kept tells whether there is a copy of the set in force.
func (k *Copies) Kept() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current.dir != ""
}

// Drop removes a copy that was never used. Nil is none.
func (k *Copies) Drop(c *Copy) {
	if c != nil {
		k.remove(c.dir)
	}
}

func (k *Copies) remove(dir string) {
	if dir == "" {
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		k.opts.Log.Warn("Cannot remove a copy of hooks", "path", dir, "error", err.Error())
	}
}
