package discover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// find returns the hook files below dir, in the byte-wise order of their paths, and dir without links.
// With mounted, scripts of a mounted volume need no execute permission.
func find(dir string, mounted bool, log *slog.Logger) (root string, files []File, err error) {
	if root, err = filepath.EvalSymlinks(dir); err != nil {
		return "", nil, fmt.Errorf("cannot open the hooks directory %s: %w", dir, err)
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("cannot read the hooks directory: %w: the operator's user needs the right to list and enter it", err)
		}
		if path == root {
			return nil
		}
		hidden := strings.HasPrefix(entry.Name(), ".")
		if entry.IsDir() {
			if hidden || entry.Name() == "lib" {
				return fs.SkipDir
			}
			return nil
		}
		var interpreter []string
		if why := unfit(path, entry.Name()); why != nil {
			if mounted && why.notExecutable {
				interpreter = mountedScript(path)
			}
			if interpreter == nil {
				log.Log(context.Background(), why.level, "file is skipped", "path", path, "error", why.reason)
				return nil
			}
		}
		name, err := filepath.Rel(root, path)
		files = append(files, File{Name: name, Path: path, Interpreter: interpreter})
		return err
	})
	if err != nil {
		return "", nil, err
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	warnAboutLib(filepath.Join(root, "lib"), log)
	return root, files, nil
}

// skip is why a file is not a hook.
type skip struct {
	level  slog.Level
	reason string
	// notExecutable tells that only the execute permission is missing.
	notExecutable bool
}

// unfit returns nil for a file that is a hook. A link is judged by its own name and by the mode of its target.
func unfit(path, name string) *skip {
	if strings.HasPrefix(name, ".") {
		return &skip{level: slog.LevelDebug, reason: "the name begins with a dot"}
	}
	switch extension := strings.ToLower(filepath.Ext(name)); extension {
	case ".yaml", ".yml", ".json", ".md", ".txt":
		return &skip{level: slog.LevelDebug, reason: "files with extension " + extension + " are no hooks"}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &skip{level: slog.LevelWarn, reason: "the link leads nowhere"}
	case err != nil:
		return &skip{level: slog.LevelWarn, reason: err.Error()}
	case info.IsDir():
		return &skip{level: slog.LevelWarn, reason: "links to directories are not followed: put the hooks or links to them into a real directory"}
	case !info.Mode().IsRegular():
		return &skip{level: slog.LevelWarn, reason: "not a regular file"}
	case info.Mode()&0o111 == 0:
		return &skip{level: slog.LevelWarn, reason: "the file is not executable: run chmod +x on it if it is a hook", notExecutable: true}
	}
	return nil
}

// warnAboutLib tells of executables in the folder for shared code, which are probably meant to be hooks.
// It never fails: the folder is none of our business.
func warnAboutLib(lib string, log *slog.Logger) {
	_ = filepath.WalkDir(lib, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if path != lib || !errors.Is(err, fs.ErrNotExist) {
				log.Warn("cannot look for executables in lib", "path", path, "error", err.Error())
			}
			return fs.SkipDir
		}
		if path == lib && !entry.IsDir() {
			return nil // a file with this name is an ordinary hook
		}
		if entry.IsDir() {
			if path != lib && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if unfit(path, entry.Name()) == nil {
			name, _ := filepath.Rel(lib, path)
			log.Warn("file is skipped", "path", name, "error", "executables below lib are no hooks: move it if it is one, or remove its execute permission")
		}
		return nil
	})
}
