package testfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Find returns the test files of paths in a stable order: files, and directories that are searched for them.
func Find(paths []string) (files []string, err error) {
	files, err = below(paths, func(file string) bool { return strings.HasSuffix(file, Suffix) })
	if err != nil {
		return nil, fmt.Errorf("cannot search for test files: %w: name a test file, or a directory with hooks", err)
	}
	slices.Sort(files)
	if files = slices.Compact(files); len(files) == 0 {
		return nil, fmt.Errorf("no test files found below %s: their names end with %s", strings.Join(paths, ", "), Suffix)
	}
	return files, nil
}

// below returns the files of paths: those that are named, and those in directories that fit, without hidden directories.
func below(paths []string, fits func(file string) bool) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			path += "/" // also through a link
		}
		err = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && file != path && strings.HasPrefix(d.Name(), "."):
				return fs.SkipDir
			case !d.IsDir() && (file == path || fits(file)):
				files = append(files, file)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// FindHook returns the path of the hook of a test file: the one that it names, or the executable with its stem.
func (f *File) FindHook() (string, error) {
	if f.Hook != "" {
		if !IsExecutable(f.Hook) {
			return "", fmt.Errorf("hook: %s is not an executable file", f.Hook)
		}
		return f.Hook, nil
	}
	stem := strings.TrimSuffix(filepath.Base(f.Path), Suffix)
	entries, err := os.ReadDir(filepath.Dir(f.Path))
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(f.Path), e.Name())
		if name := e.Name(); strings.TrimSuffix(name, filepath.Ext(name)) == stem && IsExecutable(path) {
			found = append(found, path)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("there is no executable %s beside the file: add hook: with the path of the hook", stem)
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return "", fmt.Errorf("the hook may be %s: add hook: with one of them", strings.Join(found, " or "))
}

// IsExecutable reports whether a path leads to a file that can be executed.
func IsExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
