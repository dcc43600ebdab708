package dev

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFollowTestsOfDirectoryThatComes follows a directory that is not there, or not any more, through a link: its tests run when it comes.
func TestFollowTestsOfDirectoryThatComes(t *testing.T) {
	parent := t.TempDir()
	dir, link := filepath.Join(parent, "real"), filepath.Join(parent, "hooks")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reports, ended := make(chan TestReport), make(chan struct{})
	go func() {
		defer close(ended)
		FollowTests(ctx, Options{HooksDir: link, Env: os.Environ(), ConfigTimeout: time.Minute}, func(r TestReport, err error) {
			if err != nil {
				t.Error(err)
			}
			select {
			case reports <- r:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { cancel(); <-ended }()
	new := filepath.Join(parent, "new")
	for name, text := range map[string]string{
		"a.sh":        "#!/bin/sh\n[ \"$1\" != --config ] || echo '{configVersion: v1, onStartup: 1}'\n",
		"a_test.yaml": "cases: [{name: x, startup: true}]\n",
	} {
		if err := errors.Join(os.MkdirAll(new, 0o755), os.WriteFile(filepath.Join(new, name), []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(new, dir); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-reports:
		if len(r.Cases) != 1 || r.Failed > 0 {
			t.Errorf("got %+v", r)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("no tests ran")
	}
}
