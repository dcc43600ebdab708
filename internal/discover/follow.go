package discover

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/shell-operator/shell-operator/internal/filewatch"
)

// Follow calls changed after files below the hooks directory have changed since they had a fingerprint, until ctx ends.
// Files of other kinds count too, and those in "lib": a hook may read its bindings from anything beside it.
func Follow(ctx context.Context, dir, before string, log *slog.Logger, changed func()) error {
	return filewatch.Follow(ctx, filewatch.Options{
		Directories: func() map[string]bool { return directories(dir) },
		Changed: func() {
			if now := Fingerprint(dir); now != before {
				before = now
				changed()
			}
		},
		Degraded: func(err error) {
			log.Warn("Changes of hooks are noticed within a minute only", "path", dir, "error", err.Error())
		},
	})
}

// directories are those below dir, without hidden ones, and the one that dir is in: a directory that is replaced as a
// whole is noticed there.
func directories(dir string) map[string]bool {
	all := map[string]bool{filepath.Dir(dir): true}
	walk(dir, func(path string, entry fs.DirEntry) {
		if entry.IsDir() {
			all[path] = true
		}
	})
	return all
}

// Fingerprint changes when a file below dir does, or the file that a link leads to.
func Fingerprint(dir string) string {
	sum := sha256.New()
	walk(dir, func(path string, entry fs.DirEntry) {
		if entry.IsDir() {
			fmt.Fprintln(sum, path)
			return
		}
		info, err := os.Stat(path)
		if err != nil {
			fmt.Fprintln(sum, path, "cannot be read")
			return
		}
		target, _ := filepath.EvalSymlinks(path)
		fmt.Fprintln(sum, path, target, info.Mode(), info.Size(), info.ModTime().UnixNano())
	})
	return string(sum.Sum(nil))
}

// walk visits what is below dir in the order of names, without what is hidden. What it cannot read it leaves out: the
// next call of Hooks tells of it.
func walk(dir string, visit func(path string, entry fs.DirEntry)) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return
	}
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir
		case path != root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		visit(path, entry)
		return nil
	})
}
