package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Directories of runs and of hooks are in directories that their owner can enter and change, but not list: a hook learns the path of its
// own only. A process of the same user can change the mode, but does so on purpose.
const (
	runsName, homesName = "runs", "homes"
	hiddenMode          = fs.FileMode(0o300)
)

// ensure makes a directory if it is missing.
func ensure(path string, mode fs.FileMode, what string) error {
	if !missing(path) {
		return nil
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make %s: %w", what, err)
	}
	return nil
}

// unguessable returns the last part of a name.
func (w *Workspace) unguessable() string {
	if w.keep {
		return ""
	}
	return "-" + rand.Text()
}

// removeTree removes a directory of a root, whatever its modes are, and those below it.
func removeTree(root *os.Root, name string) error {
	if root.RemoveAll(name) == nil {
		return nil
	}
	_ = fs.WalkDir(root.FS(), filepath.ToSlash(name), func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = root.Chmod(path, 0o700)
		}
		return nil
	})
	return root.RemoveAll(name)
}

// removeBelow removes an entry of a directory that need not be listable.
func removeBelow(dir, name string) error {
	path := filepath.Join(dir, name)
	if err := os.Remove(path); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	root, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrPermission) {
		if err = os.Chmod(path, 0o700); err == nil {
			root, err = os.OpenRoot(path)
		}
	}
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, entry := range entries {
		err = errors.Join(err, removeTree(root, entry.Name()))
	}
	return errors.Join(err, os.Remove(path))
}
