package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/filewatch"
)

// FollowTests runs all tests, and then those of hooks whose files change, until ctx ends.
func FollowTests(ctx context.Context, o Options, report func(TestReport, error)) {
	before, err := stamps(o.HooksDir)
	if err != nil {
		report(TestReport{}, err)
		return
	}
	test := func(files []string) {
		if len(files) > 0 && ctx.Err() == nil {
			result, err := Test(ctx, o, TestOptions{Paths: files})
			if ctx.Err() == nil {
				report(result, err)
			}
		}
	}
	if files, err := testfile.Find([]string{o.HooksDir}); err == nil { // an error is that there are none
		test(files)
	}
	_ = filewatch.Follow(ctx, filewatch.Options{ // it ends with ctx and for no other reason
		Directories: func() map[string]bool { return directories(o.HooksDir) },
		Changed: func() time.Duration {
			now, err := stamps(o.HooksDir)
			if err != nil {
				report(TestReport{}, err)
				return 0
			}
			changed := differing(before, now)
			before = now
			test(affected(o.HooksDir, changed))
			return 0
		},
		Degraded: func(err error) {
			report(TestReport{}, fmt.Errorf("changes of files are noticed within a minute only: %w", err))
		},
	})
}

// stamp is what differs between two versions of a file.
type stamp struct {
	size int64
	mode fs.FileMode
	time time.Time
}

// stamps are those of all files below a directory.
func stamps(dir string) (map[string]stamp, error) {
	all := map[string]stamp{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it is gone now
		case err != nil:
			return err
		case d.IsDir() && path != dir && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if info, err := os.Stat(path); err == nil {
			all[path] = stamp{info.Size(), info.Mode(), info.ModTime()}
		}
		return nil
	})
	return all, err
}

func directories(dir string) map[string]bool {
	all := map[string]bool{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // what cannot be read is not watched
		if err != nil || !d.IsDir() {
			return nil
		}
		if path != dir && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		all[path] = true
		return nil
	})
	return all
}

func differing(before, now map[string]stamp) (changed []string) {
	for path, s := range now {
		if before[path] != s {
			changed = append(changed, path)
		}
	}
	for path := range before {
		if _, there := now[path]; !there {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	return changed
}

// affected returns the test files to run after changes: those that have changed themselves or whose hook has. A file that is neither, such
// as a fixture or a library, may belong to all of them.
func affected(dir string, changed []string) (files []string) {
	tests, err := testfile.Find([]string{dir})
	if err != nil || len(changed) == 0 {
		return nil // there are none
	}
	hooks := map[string]string{} // by test file
	known := map[string]bool{}
	for _, path := range tests {
		known[path] = true
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		f, problems := testfile.Parse(path, text)
		if hook, err := f.FindHook(); err == nil && len(problems) == 0 {
			hooks[path], known[hook] = hook, true
		}
	}
	if slices.ContainsFunc(changed, func(path string) bool { return !known[path] }) {
		return tests
	}
	hit := map[string]bool{}
	for _, path := range tests {
		if slices.Contains(changed, path) || slices.Contains(changed, hooks[path]) {
			hit[path] = true
		}
	}
	return slices.Sorted(maps.Keys(hit))
}
