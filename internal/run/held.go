package run

import (
	"errors"
	"os"
	"syscall"
)

// What the kernel does for a path costs it several times what it does for an open file, and to make a file costs more than
// all else of a short run. So files that serve run after run stay open here.

// held are the files of a directory, open.
type held struct {
	// files are in the order of files.all.
	files [contextsIndex + 1]openFile
	// dir is the directory as it was before anybody looked at it. While it is the same, the names stand for the files.
	dir directory
}

// leftContexts is how many bytes of contexts are left in their file until others take their place. They say nothing: it is a
// bracket. But ext4 writes a file that was empty to the disk when somebody closes it, in case there was something before.
const leftContexts = 1

// hold opens the files of a directory and empties them. What others may use is made anew.
func hold(f *files, dir directory) (h *held, err error) {
	h = &held{dir: dir}
	for i, path := range f.all() {
		if h.files[i], err = emptyOrNew(path, leftIn(i)); err != nil {
			for _, file := range h.files[:i] {
				file.close()
			}
			return nil, err
		}
	}
	return h, nil
}

// leftIn is how many bytes a file that counts as empty has at most. The index is that of files.all.
func leftIn(i int) int64 {
	if i == contextsIndex {
		return leftContexts
	}
	return 0
}

// emptyOrNew opens a file that is empty, which is a new one when another process may use the one that is there.
func emptyOrNew(path string, left int64) (openFile, error) {
	const flags = syscall.O_RDWR
	if file, err := openAt(path, flags); err == nil {
		if file.emptied(left) {
			return file, nil
		}
		file.close()
	}
	if err := syscall.Unlink(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return noFile, err
	}
	return openAt(path, flags|syscall.O_CREAT|syscall.O_EXCL)
}

func (h *held) close() {
	for _, file := range h.files {
		file.close()
	}
}

func (h *held) contexts() openFile { return h.files[contextsIndex] }

// empty tells that a file is empty. The index is that of files.all.
func (h *held) empty(i int) bool {
	size, err := h.files[i].size()
	return err == nil && size == 0
}

// emptied empties a file but for some bytes, if nobody else has it open and it is private.
func (f openFile) emptied(left int64) bool {
	return f.alone(func(size int64) bool { return size <= left || f.truncate(left) == nil })
}

// sole tells that nobody has a file open, and that it is private.
func sole(path string) bool {
	file, err := openAt(path, syscall.O_RDWR)
	if err != nil {
		return false
	}
	defer file.close()
	return file.alone(func(int64) bool { return true })
}

// letGo closes what is open. Only the names are known then.
func (f *files) letGo() {
	if f.held != nil {
		f.held.close()
		f.held = nil
	}
}

// stillHeld tells that the files are open, and that the names stand for them.
func (f *files) stillHeld() bool {
	if f.held == nil {
		return false
	}
	now, err := directoryAt(f.dir)
	return err == nil && now == f.held.dir
}

// emptied makes the files as they were before the run. It returns false when it has to be looked for more.
func (f *files) emptied() bool {
	if !f.stillHeld() {
		return false
	}
	for i, file := range f.held.files {
		if !file.emptied(leftIn(i)) {
			return false
		}
	}
	return true
}
