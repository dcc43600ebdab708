package hookset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// library is a hooks directory on which a Store works.
type library struct {
	t     *testing.T
	store *Store
	opts  Options
	log   *lines
}

func newLibrary(t *testing.T, limit int64) *library {
	log, logged := newLog()
	l := &library{
		t: t, store: NewStore(StoreOptions{Dir: t.TempDir(), Log: log, Limit: limit}), log: logged,
		opts: Options{Dir: t.TempDir(), Env: os.Environ(), Executor: process.New(process.Options{}),
			Filters: jq.NewCompiler(jq.Options{}), Log: log},
	}
	t.Cleanup(l.store.Close)
	return l
}

// write writes a hook that prints a text beside it as its configuration.
func (l *library) write(name, config string) {
	l.t.Helper()
	for file, text := range map[string]string{name: "#!/bin/sh\ncat \"$0.conf\"\n", name + ".conf": config} {
		if err := os.WriteFile(filepath.Join(l.opts.Dir, file), []byte(text), 0o755); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(l.opts.Dir, name+".conf"), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *library) load() *Set {
	l.t.Helper()
	set, err := l.store.Load(l.t.Context(), l.opts)
	if err != nil {
		l.t.Fatal(err)
	}
	return set
}

func (l *library) copies() int {
	l.t.Helper()
	l.store.Close()
	entries, err := os.ReadDir(l.store.opts.Dir)
	if err != nil {
		l.t.Fatal(err)
	}
	return len(entries)
}

// Hooks run from the copy that they were loaded from, a hook that has been replaced too, and copies go with their last use.
func TestStore(t *testing.T) {
	l := newLibrary(t, 0)
	l.write("a", "{configVersion: v1, onStartup: 1}")
	l.write("b", "{configVersion: v1, onStartup: 1}")
	first := l.load()
	a, b := first.Hooks[0], first.Hooks[1]
	l.store.Use(first, first.Hooks)
	if a.Path != filepath.Join(l.opts.Dir, "a") {
		t.Errorf("path %s", a.Path)
	}
	l.write("b", "{configVersion: v1, onStartup: 2}")
	path, _, release := l.store.Take(b)
	if text, err := os.ReadFile(path + ".conf"); err != nil || !strings.Contains(string(text), "onStartup: 1") {
		t.Errorf("after a change %s has %q, %v", path, text, err)
	}
	second := l.load()
	change := second.ChangeFrom(first.Hooks)
	if !slices.Equal(change.Hooks, []*hook.Hook{a, second.Hooks[1]}) || !slices.Equal(change.Old, []*hook.Hook{b}) ||
		!slices.Equal(change.New, second.Hooks[1:]) || !slices.Equal(change.Changed, []string{"b"}) || len(change.Added)+len(change.Removed) > 0 {
		t.Errorf("change %+v", change)
	}
	l.store.Use(second, change.Hooks)
	if kept, _, _ := l.store.Take(a); filepath.Dir(kept) == filepath.Dir(path) {
		t.Error("a hook with an equal configuration still runs from the previous copy")
	}
	if old, _, release := l.store.Take(b); filepath.Dir(old) != filepath.Dir(path) {
		t.Error("a hook that was replaced does not run from its own copy")
	} else {
		release()
	}
	l.store.Forget(b)
	if n := l.copies(); n != 2 {
		t.Errorf("%d copies while a run uses the first one", n)
	}
	release()
	if n := l.copies(); n != 1 {
		t.Errorf("%d copies after the run", n)
	}
	l.store.Drop(l.load())
	if n := l.copies(); n != 1 {
		t.Errorf("%d copies after one was dropped", n)
	}
	if l.store.Problem() != "" {
		t.Errorf("problem %q", l.store.Problem())
	}
}

// A rejected set leaves no copy.
func TestStoreRejectedSet(t *testing.T) {
	l := newLibrary(t, 0)
	l.write("a", "{configVersion: v9}")
	if _, err := l.store.Load(t.Context(), l.opts); err == nil || l.copies() != 0 {
		t.Errorf("error %v, %d copies", err, l.copies())
	}
}

// A directory beyond the limit is not copied: hooks run from their own files, and one record reports it.
func TestStoreTooLarge(t *testing.T) {
	l := newLibrary(t, 10)
	l.write("a", "{configVersion: v1, onStartup: 1}")
	set := l.load()
	l.store.Use(set, set.Hooks)
	path, _, release := l.store.Take(set.Hooks[0])
	release()
	if path != set.Hooks[0].Path || l.store.Problem() == "" {
		t.Errorf("it runs from %s, problem %q", path, l.store.Problem())
	}
	l.store.Use(l.load(), set.Hooks)
	if n := strings.Count(l.log.String(), "The hooks directory is not copied"); n != 1 {
		t.Errorf("logged %d times: %s", n, l.log)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Error("the hook itself was removed")
	}
}

// A link to the hooks directory that leads elsewhere changes no hook whose configuration is equal.
func TestStoreLinkedDirectory(t *testing.T) {
	l := newLibrary(t, 0)
	l.write("a", "{configVersion: v1, onStartup: 1}")
	other := newLibrary(t, 0)
	other.write("a", "{configVersion: v1, onStartup: 1}")
	link := filepath.Join(t.TempDir(), "hooks")
	if err := os.Symlink(l.opts.Dir, link); err != nil {
		t.Fatal(err)
	}
	l.opts.Dir, other.opts.Dir = link, l.opts.Dir
	first := l.load()
	l.store.Use(first, first.Hooks)
	if err := errors.Join(os.Remove(link), os.Symlink(filepath.Dir(filepath.Join(other.opts.Dir, "x")), link)); err != nil {
		t.Fatal(err)
	}
	if c := l.load().ChangeFrom(first.Hooks); len(c.New) > 0 {
		t.Errorf("changed %q", c.Changed)
	}
}

// The files of a hook are its own one and those that it sources, whatever else is in the directory.
func TestTouched(t *testing.T) {
	l := newLibrary(t, 0)
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(l.opts.Dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	config := "if [ \"$1\" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi\n"
	put("a.sh", "#!/bin/sh\n. \"$(dirname \"$0\")/lib/a.sh\"\n"+config)
	put("b/b.sh", "#!/bin/sh\n. "+l.opts.Dir+"/lib/b.sh\n"+config)
	put("c.sh", "#!/bin/sh\n"+config+"date > state.txt; cat lib/a.sh\n")
	put("lib/a.sh", ". \"$(dirname \"$0\")/lib/common.sh\"\n")
	put("lib/b.sh", "# nothing\n")
	put("lib/common.sh", "# nothing\n")
	active := l.load()
	l.store.Use(active, active.Hooks)
	for _, test := range []struct {
		file, text string
		touched    []string
	}{
		{"state.txt", "1", nil},
		{"c.sh", "#!/bin/sh\n" + config + "date\n", []string{"c.sh"}},
		{"lib/a.sh", ". \"$(dirname \"$0\")/lib/common.sh\" # again\n", []string{"a.sh"}},
		{"lib/common.sh", "# fixed\n", []string{"a.sh"}},
		{"lib/b.sh", "# fixed\n", []string{"b/b.sh"}},
		{"lib/b.sh", "# fixed\n", nil},
	} {
		put(test.file, test.text)
		set := l.load()
		change := set.ChangeFrom(active.Hooks)
		var names []string
		for _, h := range change.Touched {
			names = append(names, h.Name)
		}
		if !slices.Equal(names, test.touched) || !slices.Equal(change.Hooks, active.Hooks) {
			t.Errorf("after a change of %s: %q, want %q; change %+v", test.file, names, test.touched, change)
		}
		l.store.Use(set, change.Hooks)
	}
}
