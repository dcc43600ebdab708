package hookset

import (
	"os"
	"path/filepath"
)

// Lease is the right of a run to the files of the set that was in force when it was taken.
type Lease struct {
	hooks *Copies
	of    *Copy
}

// Take gives a run its files, which stay until the run calls Release.
func (k *Copies) Take() *Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current.runs++
	return &Lease{k, k.current}
}

// At returns where a hook has to be run from that was loaded from path. Ask at the last moment: the answer is about now.
func (l *Lease) At(path string) string {
	name, err := filepath.Rel(l.of.root, path)
	if l.of.dir == "" || err != nil || !filepath.IsLocal(name) {
		return path
	}
	k := l.hooks
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.of == k.current && !k.differ && !l.of.files.Same(path) {
		k.opts.Untold()
		k.look()
	}
	if l.of == k.current && !k.differ {
		return path
	}
	copied := filepath.Join(l.of.dir, name)
	if _, err := os.Stat(copied); err != nil {
		return path // somebody cleans up the temp directory
	}
	return copied
}

// Release ends the lease.
func (l *Lease) Release() {
	k := l.hooks
	k.mu.Lock()
	l.of.runs--
	unused := l.of.runs == 0 && l.of != k.current
	k.mu.Unlock()
	if unused {
		k.remove(l.of.dir)
	}
}
