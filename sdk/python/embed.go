// Package python embeds the library for hooks in Python in the program.
//
// Callers may rely on this:
//   - Unpack needs no privileges and writes only below the directory that it is given.
//   - Only the owner can read or change its files.
package python

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A pattern instead of the directory: its __pycache__ stays out, and files whose names begin with _ are in.
//
//go:embed shell_operator_hook/*.py shell_operator_hook/py.typed
var files embed.FS

// Unpack writes the library into dir, which it creates if it is missing, and returns the absolute path for PYTHONPATH. Files of an
// earlier version are overwritten.
func Unpack(dir string) (path string, err error) {
	if path, err = filepath.Abs(dir); err == nil {
		err = unpack(path)
	}
	if err != nil {
		return "", fmt.Errorf("cannot unpack the Python library: %w", err)
	}
	return path, nil
}

func unpack(dir string) error {
	return fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(path))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		content, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
}
