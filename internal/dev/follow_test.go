package dev

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAffected selects the tests to run after changes of files.
func TestAffected(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"a.sh": "", "a_test.yaml": "cases: [{name: x, startup: true}]\n", "b.sh": "", "b_test.yaml": "cases: [{name: x, startup: true}]\n",
		"more/both_test.yaml": "hook: ../a.sh\ncases: [{name: x, startup: true}]\n", "fixtures/pod.yaml": "",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for changed, want := range map[string]string{
		"": "", "a.sh": "a_test.yaml more/both_test.yaml", "b_test.yaml": "b_test.yaml",
		"a.sh b.sh":         "a_test.yaml b_test.yaml more/both_test.yaml",
		"fixtures/pod.yaml": "a_test.yaml b_test.yaml more/both_test.yaml", "more/both_test.yaml b.sh": "b_test.yaml more/both_test.yaml",
	} {
		var paths, got []string
		for name := range strings.FieldsSeq(changed) {
			paths = append(paths, filepath.Join(dir, name))
		}
		for _, path := range affected(dir, paths) {
			got = append(got, strings.TrimPrefix(path, dir+"/"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", changed, got, want)
		}
	}
}

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
