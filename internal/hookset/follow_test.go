package hookset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// mount writes files as kubelet does: into a directory of their own, with links to them through "..data", which is
// swapped atomically.
func mount(t *testing.T, dir, version string, files map[string]string) {
	t.Helper()
	var errs []error
	errs = append(errs, os.MkdirAll(filepath.Join(dir, version), 0o755))
	for name, text := range files {
		errs = append(errs, os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o644))
	}
	errs = append(errs, os.Symlink(version, filepath.Join(dir, "..data_tmp")),
		os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	for name := range files {
		if err := os.Symlink("..data/"+name, filepath.Join(dir, name)); !errors.Is(err, os.ErrExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestScriptsOfMountedVolumes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mount(t, dir, "..1", map[string]string{
		"a.sh": "#!/bin/sh\necho\n", "b": "#! /usr/bin/env  bash -e \r\n", "c.py": "print()\n", "d": "#!", "e.md": "#!/bin/sh\n",
		"f": "#!/bin/sh",
	})
	if err := os.WriteFile(filepath.Join(dir, "own.sh"), []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, mounted := range []bool{false, true} {
		log, _ := newLog()
		_, files, err := find(dir, dir, mounted, log)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range files {
			got = append(got, f.Name+": "+strings.Join(f.Interpreter, "|"))
		}
		var want []string
		if mounted {
			want = []string{"a.sh: /bin/sh", "b: /usr/bin/env|bash -e", "f: /bin/sh"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("mounted %t: got %q, want %q", mounted, got, want)
		}
	}
}

// Follow reports changes of hooks, of other files and of swapped volumes, but not of hidden files.
func TestFollow(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "hooks")
	mount(t, dir, "..1", map[string]string{"a.sh": "#!/bin/sh\n"})
	ctx, cancel := context.WithCancel(t.Context())
	log, logged := newLog()
	calls, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- Follow(ctx, Following{
			Dir: dir, Found: Files{}, Log: log,
			Changed: func() {
				select {
				case calls <- struct{}{}:
				case <-ctx.Done():
				}
			},
		})
	}()
	write := func(name string) func() error {
		return func() error {
			path := filepath.Join(dir, name)
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("text"), 0o644))
		}
	}
	for _, step := range []func() error{
		func() error { return nil },
		write("b.sh"),
		func() error { return os.Chmod(filepath.Join(dir, "b.sh"), 0o755) },
		write("lib/config.yaml"),
		func() error {
			mount(t, dir, "..2", map[string]string{"a.sh": "#!/bin/sh\n# new\n"})
			return nil
		},
		func() error { return os.Remove(filepath.Join(dir, "b.sh")) },
		func() error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Rename(dir+".old", dir), write("c.sh")())
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		<-calls
	}
	before := Look(dir)
	if err := errors.Join(write(".hidden")(), write("lib/__pycache__/x.pyc")()); err != nil {
		t.Fatal(err)
	}
	if hooks, others := before.Differences(Look(dir)); len(hooks)+len(others) > 0 {
		t.Errorf("hidden files count as changes: %q, %q", hooks, others)
	}
	cancel()
	if err := <-ended; err != nil || logged.String() != "" {
		t.Errorf("error %v, log %q", err, logged)
	}
}

// A link on the way to the hooks is swapped, as git-sync does it for a new commit.
func TestFollowLinkOnTheWay(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	swap := func(commit string) error {
		dir := filepath.Join(root, ".worktrees", commit, "hooks")
		return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "a.sh"), []byte("#!/bin/sh\n# "+commit), 0o755),
			os.Symlink(filepath.Join(".worktrees", commit), filepath.Join(root, "tmp-link")),
			os.Rename(filepath.Join(root, "tmp-link"), filepath.Join(root, "current")))
	}
	if err := swap("1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	log, _ := newLog()
	calls, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- Follow(ctx, Following{Dir: filepath.Join(root, "current", "hooks"), Found: Files{}, Log: log,
			Changed: func() { calls <- struct{}{} }})
	}()
	<-calls // it watches
	if err := swap("2"); err != nil {
		t.Fatal(err)
	}
	<-calls
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A file that is no hook and changes without end causes few calls; a hook that changes is reported nevertheless.
func TestFlappingFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	log, logged := newLog()
	calls, ended := make(chan struct{}), make(chan error)
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	found := Look(dir)
	go func() {
		ended <- Follow(ctx, Following{Dir: dir, Found: found, Log: log, Changed: func() { calls <- struct{}{} }})
	}()
	for n := range calmBurst {
		write("state", strings.Repeat("x", n), 0o644)
		<-calls
	}
	write("state", "once more", 0o644)
	for logged.String() == "" { // the watcher has seen it when it has logged it
		runtime.Gosched()
	}
	write("hook", "#!/bin/sh\n", 0o755)
	<-calls
	cancel()
	if err := <-ended; err != nil || strings.Count(logged.String(), "changes again and again") != 1 {
		t.Errorf("error %v, log %q", err, logged)
	}
}
