package hookset

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

// Entry is a file or directory below the hooks directory, and what becomes of it.
type Entry struct {
	File
	// Skipped is why it is no hook; nil means that it is one.
	Skipped *Skip
	// Dir: everything below is skipped, too.
	Dir bool
}

// Skip is why a file is not a hook.
type Skip struct {
	Cause  Cause
	Reason string
	// Level is the log level of the finding.
	Level slog.Level
	// Hint is the next step, if there is one.
	Hint string
}

// String is the reason with the hint.
func (s *Skip) String() string { return strings.TrimSuffix(s.Reason+": "+s.Hint, ": ") }

// Cause sorts reasons.
type Cause int

const (
	// Hidden and Extension are names that no hook has.
	Hidden Cause = iota + 1
	Extension
	// Library are directories for shared code, and what is below them.
	Library
	// Tests are directories for the objects and stubs of test files.
	Tests
	// NotExecutable has no execute permission, Unusable is no regular file.
	NotExecutable
	Unusable
)

// Entries returns what is below the hooks directory, in the byte-wise order of the paths, and the directory without
// links. Executables below lib are among them: they are probably meant to be hooks.
func Entries(dir string) (root string, all []Entry, err error) {
	if root, err = filepath.EvalSymlinks(dir); err != nil {
		return "", nil, fmt.Errorf("cannot open the hooks directory %s: %w", dir, err)
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		belowLib := strings.HasPrefix(path, filepath.Join(root, "lib")+string(filepath.Separator))
		switch {
		case err != nil && (belowLib || path == filepath.Join(root, "lib")):
			return fs.SkipDir // it has no hooks
		case err != nil:
			return fmt.Errorf("cannot read the hooks directory: %w: the operator's user needs the right to list and enter it", err)
		case path == root:
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		e := Entry{File: File{Name: name, Path: path}, Dir: entry.IsDir()}
		switch hidden := strings.HasPrefix(entry.Name(), "."); {
		case belowLib && e.Dir && hidden:
			return fs.SkipDir
		case belowLib && (e.Dir || unfit(path, entry.Name()) != nil):
			return nil
		case belowLib:
			e.Skipped = &Skip{Library, "executables below lib are no hooks", slog.LevelWarn,
				"move it if it is one, or remove its execute permission"}
		case e.Dir && hidden:
			e.Skipped = &Skip{Hidden, "the name begins with a dot", quiet, ""}
		case e.Dir && entry.Name() == "lib":
			e.Skipped = &Skip{Library, "directories named lib hold shared code", quiet, ""}
		case e.Dir && besideTests(path):
			e.Skipped = &Skip{Tests, "directories named " + entry.Name() + " beside test files are for tests", quiet, ""}
		case e.Dir:
			return nil
		default:
			e.Skipped = unfit(path, entry.Name())
		}
		all = append(all, e)
		if e.Dir && name != "lib" {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return root, all, nil
}

// testSuffix ends the names of test files.
const testSuffix = "_test.yaml"

// besideTests reports whether a directory has one of the names for objects and stubs of tests, and test files are beside it. Without one,
// it may have hooks.
func besideTests(dir string) bool {
	if !slices.Contains([]string{"fixtures", "stubs", "testdata"}, filepath.Base(dir)) {
		return false
	}
	beside, err := os.ReadDir(filepath.Dir(dir))
	return err == nil && slices.ContainsFunc(beside, func(e fs.DirEntry) bool { return !e.IsDir() && strings.HasSuffix(e.Name(), testSuffix) })
}

// quiet is below every level that is logged: records about each hidden directory would be noise.
const quiet = slog.LevelDebug - 8

// find returns the hook files below dir, in the byte-wise order of their paths, and dir without links.
// With mounted, scripts of a mounted volume need no execute permission. Records name files below the directory shown.
func find(dir, shown string, mounted bool, log *slog.Logger) (root string, files []File, err error) {
	root, all, err := Entries(dir)
	for _, e := range all {
		if mounted && e.Skipped != nil && e.Skipped.Cause == NotExecutable {
			if e.Interpreter = mountedScript(e.Path); e.Interpreter != nil {
				e.Skipped = nil
			}
		}
		switch {
		case e.Skipped == nil:
			files = append(files, e.File)
		case e.Skipped.Level > quiet:
			log.Log(context.Background(), e.Skipped.Level, "file is skipped", "path", filepath.Join(shown, e.Name), "error", e.Skipped.String())
		}
	}
	return root, files, err
}

// unfit returns nil for a file that is a hook. A link is judged by its own name and by the mode of its target.
func unfit(path, name string) *Skip {
	if strings.HasPrefix(name, ".") {
		return &Skip{Hidden, "the name begins with a dot", slog.LevelDebug, ""}
	}
	switch extension := strings.ToLower(filepath.Ext(name)); extension {
	case ".yaml", ".yml", ".json", ".md", ".txt":
		return &Skip{Extension, "files with extension " + extension + " are no hooks", slog.LevelDebug, ""}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Skip{Unusable, "the link leads nowhere", slog.LevelWarn, ""}
	case err != nil:
		return &Skip{Unusable, err.Error(), slog.LevelWarn, ""}
	case info.IsDir():
		return &Skip{Unusable, "links to directories are not followed", slog.LevelWarn, "put the hooks or links to them into a real directory"}
	case !info.Mode().IsRegular():
		return &Skip{Unusable, "not a regular file", slog.LevelWarn, ""}
	case info.Mode()&0o111 == 0 && strings.ToLower(filepath.Ext(name)) == ".go":
		return &Skip{Extension, "source of Go is compiled first", slog.LevelDebug, ""}
	case info.Mode()&0o111 == 0:
		return &Skip{NotExecutable, "the file is not executable", slog.LevelWarn, "run chmod +x on it if it is a hook"}
	}
	return nil
}
