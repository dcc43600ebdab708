package dev

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/filewatch"
	"github.com/shell-operator/shell-operator/internal/hookset"
)

// FollowTests runs all tests, now and when files of the hooks directory have changed, until ctx ends.
func FollowTests(ctx context.Context, o Options, report func(TestReport, error)) {
	before := hookset.Look(o.HooksDir)
	test := func() {
		dir := o.HooksDir
		if path, err := filepath.EvalSymlinks(dir); err == nil {
			dir = path
		}
		if _, err := testfile.Find([]string{dir}); err != nil {
			return // there are none
		}
		if result, err := Test(ctx, o, TestOptions{Paths: []string{dir}}); ctx.Err() == nil {
			report(result, err)
		}
	}
	test()
	_ = filewatch.Follow(ctx, filewatch.Options{ // it ends with ctx and for no other reason
		Directories: func() map[string]bool { return hookset.Directories(o.HooksDir) },
		Changed: func() time.Duration {
			now := hookset.Look(o.HooksDir)
			if !maps.Equal(before, now) {
				test()
			}
			before = now
			return 0
		},
		Degraded: func(err error) {
			report(TestReport{}, fmt.Errorf("changes of files are noticed within a minute only: %w", err))
		},
	})
}
