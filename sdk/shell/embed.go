// Package shell embeds the library for hooks in bash in the program.
//
// Callers may rely on this:
//   - Unpack needs no privileges and writes only below the directory that it is given.
//   - Only the owner can read or change its files.
//   - Other files beside the library stay, and the library sources them.
package shell

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed shell_lib.sh frameworks
var files embed.FS

// Unpack writes the library into dir, which it creates if it is missing, and returns the absolute path of the file that hooks
// source: dir/shell_lib.sh. Files of an earlier version are overwritten.
func Unpack(dir string) (libPath string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("cannot unpack the shell library: %w", err)
	}
	err = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
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
	if err != nil {
		return "", fmt.Errorf("cannot unpack the shell library: %w", err)
	}
	return filepath.Join(dir, "shell_lib.sh"), nil
}
