package run

import (
	"os"
	"slices"
	"syscall"
	"time"
)

// The pages of a new file have to be found, and given back when it is removed. For a context of many MiB that takes the
// kernel longer than the copy into pages that are there, so large context files serve the runs that follow at once: under
// a name that was never used before, and only when nobody has them open.

const (
	// largeContexts is the size from which a file is worth keeping.
	largeContexts = 256 << 10
	// mostKept bounds the bytes of all that are kept, which lie in memory where the temp directory does.
	mostKept = 64 << 20
	// keptFor is how long they wait for another run.
	keptFor = 10 * time.Second
)

// keptContexts are files with contexts of runs that have ended. The lock of the workspace guards them.
type keptContexts struct {
	files  []keptFile
	size   int64
	expiry *time.Timer
}

type keptFile struct {
	path string
	size int64
}

// closeContexts ends a large context file of a run: it is kept, or it is no more.
func (w *Workspace) closeContexts(path string) {
	size, err := sizeOf(path)
	if err != nil || size < largeContexts {
		return
	}
	// Who knew the name does not find it any more; who has it open keeps it from being used.
	kept := keptFile{w.name("contexts-"), size}
	if syscall.Rename(path, kept.path) != nil {
		_ = syscall.Unlink(path)
		return
	}
	if !sole(kept.path) || !w.putContexts(kept) {
		_ = syscall.Unlink(kept.path)
	}
}

func (w *Workspace) putContexts(file keptFile) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.kept.size+file.size > mostKept {
		return false
	}
	w.kept.files = append(w.kept.files, file)
	w.kept.size += file.size
	if w.kept.expiry == nil {
		w.kept.expiry = time.AfterFunc(keptFor, w.dropContexts)
	} else {
		w.kept.expiry.Reset(keptFor)
	}
	return true
}

func (w *Workspace) takeContexts() (file keptFile, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.kept.files) - 1
	if last < 0 {
		return file, false
	}
	file = w.kept.files[last]
	w.kept.files = slices.Delete(w.kept.files, last, last+1)
	w.kept.size -= file.size
	return file, true
}

// dropContexts removes the files that no run wanted.
func (w *Workspace) dropContexts() {
	for {
		file, ok := w.takeContexts()
		if !ok {
			return
		}
		_ = syscall.Unlink(file.path)
	}
}

// contextOutput is the file of a run's contexts. It is opened when the first of them are written: only then is it known
// whether they are large.
type contextOutput struct {
	workspace *Workspace
	files     *files
	// file is noFile before.
	file openFile
	// borrowed tells that the file stays open.
	borrowed bool
	// before is the size of what the file held for another run.
	before, written int64
}

func (w *Workspace) contextOutput(f *files) *contextOutput {
	return &contextOutput{workspace: w, files: f, file: noFile}
}

func (c *contextOutput) Write(p []byte) (int, error) {
	if err := c.open(len(p)); err != nil {
		return 0, err
	}
	n, err := c.file.Write(p)
	return n, c.wrote(int64(n), "write", err)
}

func (c *contextOutput) wrote(n int64, op string, err error) error {
	c.written += n
	if err != nil {
		return &os.PathError{Op: op, Path: c.files.contexts, Err: err}
	}
	return nil
}

// open opens the file for the first size bytes.
func (c *contextOutput) open(size int) error {
	switch {
	case c.file != noFile:
		return nil
	case size >= largeContexts && c.reopen():
		return nil
	}
	c.before = leftContexts
	if c.files.held != nil {
		c.file, c.borrowed = c.files.held.contexts(), true
		return c.file.rewind()
	}
	var err error
	c.file, err = openAt(c.files.contexts, syscall.O_CREAT|syscall.O_WRONLY)
	return err
}

// reopen takes a file that has been kept. What it holds is written over, and cut off by Close.
func (c *contextOutput) reopen() bool {
	path := c.files.contexts
	kept, ok := c.workspace.takeContexts()
	if !ok || syscall.Rename(kept.path, path) != nil {
		return false
	}
	c.files.letGo()
	file, err := openAt(path, syscall.O_WRONLY)
	if err == nil {
		if c.before, ok = file.private(); ok {
			c.file = file
			return true
		}
		file.close()
	}
	_ = syscall.Unlink(path)
	return false
}

// Close ends the file where the contexts end.
func (c *contextOutput) Close() error {
	c.files.contextsEnd = c.written
	err := c.open(0)
	if err == nil && c.written < c.before {
		err = c.file.truncate(c.written)
	}
	if !c.borrowed {
		c.file.close()
	}
	return err
}
