// Package sdk embeds the libraries for hooks in the program: in bash, and in Python.
//
// Callers may rely on this:
//   - UnpackShell and UnpackPython need no privileges and write only below the directory that they are given, which they create if it is
//     missing.
//   - Only the owner can read or change the files. Those of an earlier version are overwritten, and others stay: the shell library sources
//     other files beside it.
package sdk

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed shell/shell_lib.sh shell/frameworks
var shell embed.FS

// A pattern instead of the directory: its __pycache__ stays out, and files whose names begin with _ are in.
//
//go:embed python/shell_operator_hook/*.py python/shell_operator_hook/py.typed
var python embed.FS

// UnpackShell writes the shell library into dir, and returns the absolute path of the file that hooks source: dir/shell_lib.sh.
func UnpackShell(dir string) (libPath string, err error) {
	path, err := unpack(shell, "shell", dir)
	if err != nil {
		return "", fmt.Errorf("cannot unpack the shell library: %w", err)
	}
	return filepath.Join(path, "shell_lib.sh"), nil
}

// UnpackPython writes the Python library into dir, and returns the absolute path for PYTHONPATH.
func UnpackPython(dir string) (path string, err error) {
	if path, err = unpack(python, "python", dir); err != nil {
		return "", fmt.Errorf("cannot unpack the Python library: %w", err)
	}
	return path, nil
}

// unpack writes the files below root into dir, and returns the absolute path of dir.
func unpack(files embed.FS, root, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, fs.WalkDir(files, root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, filepath.FromSlash(path))
		if err != nil {
			return err
		}
		target := filepath.Join(dir, name)
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
