package run

import (
	"slices"
	"syscall"
)

// To make a file and to remove it costs the kernel many times what it costs to empty it, so the files of a run serve the next
// one. For hooks there is no difference: every run has its files under names that were never used before, and what others could
// still read or write into is made anew.

// mostSpare bounds how many directories wait for runs. More are needed only where more hooks run at once.
const mostSpare = 16

// reuse returns the files of a run that has ended under names that begin with prefix, or nil.
func (w *Workspace) reuse(prefix string) *files {
	for {
		spare := w.takeSpare()
		if spare == nil {
			return nil
		}
		f := w.next(prefix)
		f.held, spare.held = spare.held, nil
		if syscall.Rename(spare.dir, f.dir) == nil {
			if f.stillHeld() {
				return f
			}
			f.letGo()
			if f.empty() {
				return f
			}
		}
		// Somebody cleans up here, and may have been half through.
		_, _ = spare.remove(), f.remove()
	}
}

func (w *Workspace) takeSpare() (taken *files) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.spare) - 1; last >= 0 {
		taken = w.spare[last]
		w.spare = slices.Delete(w.spare, last, last+1)
	}
	return taken
}

// close ends the files of a run: no file is left that it wrote, nor any under a name that it knew.
func (w *Workspace) close(f *files) error {
	if w.keep {
		return nil
	}
	if f.contextsEnd >= largeContexts {
		f.letGo()
		w.closeContexts(f.contexts)
	}
	spare := w.next("spare-")
	if syscall.Rename(f.dir, spare.dir) != nil {
		return f.remove()
	}
	spare.held, f.held = f.held, nil
	if (spare.emptied() || spare.tidy()) && w.putSpare(spare) {
		return nil
	}
	return spare.remove()
}

func (w *Workspace) putSpare(f *files) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.spare) >= mostSpare {
		return false
	}
	w.spare = append(w.spare, f)
	return true
}

func (f *files) empty() bool {
	for i, path := range f.all() {
		if size, err := sizeOf(path); err != nil || size > leftIn(i) {
			return false
		}
	}
	return true
}

// tidy makes the files as they were before the run. It returns false when there is more to clean up.
func (f *files) tidy() bool {
	f.letGo()
	dir, err := directoryAt(f.dir)
	if err != nil || !f.alone() {
		return false
	}
	h, err := hold(f, dir)
	if err != nil {
		return false
	}
	if f.held = h; !dir.settled() || !f.stillHeld() {
		f.letGo()
	}
	return true
}

// alone tells that there is nothing else in the directory, which is private still.
func (f *files) alone() bool {
	fd, err := syscall.Open(f.dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	var stat syscall.Stat_t
	if syscall.Fstat(fd, &stat) != nil || stat.Mode&0o7777 != 0o700 {
		return false
	}
	all := f.all()
	buf := make([]byte, 1024)
	for {
		n, err := syscall.ReadDirent(fd, buf)
		if err != nil || n == 0 {
			return err == nil
		}
		_, _, names := syscall.ParseDirent(buf[:n], -1, make([]string, 0, len(all)))
		for _, name := range names {
			if !slices.ContainsFunc(all[:], func(path string) bool { return path[len(f.dir)+1:] == name }) {
				return false
			}
		}
	}
}
