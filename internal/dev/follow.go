package dev

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/filewatch"
	"github.com/shell-operator/shell-operator/internal/hookset"
)

// FollowTests runs all tests, and then those of hooks whose files change, until ctx ends.
func FollowTests(ctx context.Context, o Options, report func(TestReport, error)) {
	before := hookset.Look(o.HooksDir)
	test := func(files []string) {
		if len(files) > 0 && ctx.Err() == nil {
			result, err := Test(ctx, o, TestOptions{Paths: files})
			if ctx.Err() == nil {
				report(result, err)
			}
		}
	}
	if files, err := testfile.Find([]string{resolved(o.HooksDir)}); err == nil { // an error is that there are none
		test(files)
	}
	_ = filewatch.Follow(ctx, filewatch.Options{ // it ends with ctx and for no other reason
		Directories: func() map[string]bool { return hookset.Directories(o.HooksDir) },
		Changed: func() time.Duration {
			now := hookset.Look(o.HooksDir)
			changed := before.Differences(now)
			before = now
			test(affected(resolved(o.HooksDir), changed))
			return 0
		},
		Degraded: func(err error) {
			report(TestReport{}, fmt.Errorf("changes of files are noticed within a minute only: %w", err))
		},
	})
}

// resolved is the directory that a link leads to.
func resolved(dir string) string {
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		return path
	}
	return dir
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
