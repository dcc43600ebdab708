package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func homeOf(t *testing.T, w *Workspace, hook string) string {
	t.Helper()
	env, err := w.Prepare(hook)
	must(t, err)
	if len(env) != 1 || !strings.HasPrefix(env[0], "HOME=") {
		t.Fatalf("the variables are %q", env)
	}
	return strings.TrimPrefix(env[0], "HOME=")
}

// A home directory belongs to one hook, for its config calls and its runs, and is kept between them; Leave removes it, whatever the hook
// has done to its modes, and Close the rest.
func TestHomes(t *testing.T) {
	w := open(t, Options{Homes: true, RunDir: t.TempDir()})
	a, b := homeOf(t, w, "a/b.sh"), homeOf(t, w, "a-b.sh")
	if a == b || filepath.Dir(a) != filepath.Join(w.Dir(), homesName) {
		t.Errorf("the homes are %s and %s", a, b)
	}
	must(t, os.MkdirAll(filepath.Join(a, "read", "only"), 0o700), os.WriteFile(filepath.Join(a, "read", "file"), nil, 0o600),
		os.Chmod(filepath.Join(a, "read", "only"), 0), os.Chmod(filepath.Join(a, "read"), 0o500))
	f, err := w.Create("a/b.sh", "1-1")
	must(t, err)
	if !slices.Contains(f.Own(), "HOME="+a) {
		t.Errorf("the variables of a run are %q", f.Own())
	}
	must(t, w.Delete(f))
	if again := homeOf(t, w, "a/b.sh"); again != a || missing(filepath.Join(a, "read")) {
		t.Errorf("the home is not kept: %s", again)
	}
	for _, path := range []string{filepath.Join(w.Dir(), homesName), filepath.Join(w.runs.path, runsName)} {
		if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeDir|hiddenMode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	must(t, os.RemoveAll(b)) // as a hook or a cleaner of temporary files does
	if again := homeOf(t, w, "a-b.sh"); again != b || missing(b) {
		t.Errorf("the home is not made again: %s", again)
	}
	w.Leave("a/b.sh")
	w.Leave("unknown.sh")
	w.removals.Wait()
	if !missing(a) || missing(b) {
		t.Error("not the home of the hook that has gone is removed")
	}
	if again := homeOf(t, w, "a/b.sh"); again == a {
		t.Error("a hook of the same name gets the path of the former one")
	}
	must(t, w.Close())
	if !missing(w.Dir()) {
		t.Error("Close leaves something")
	}
	must(t, os.MkdirAll(filepath.Dir(w.Dir()), 0o700))
}

// A temp directory that has been removed is no error at the end.
func TestCloseWithoutDirectory(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), "tmp")
	must(t, os.Mkdir(tmp, 0o700))
	w := open(t, Options{Dir: tmp})
	must(t, os.RemoveAll(tmp), w.Close())
}

// Directories of a killed operator are removed with those that cannot be listed.
func TestSweepHidden(t *testing.T) {
	tmp := t.TempDir()
	killed, err := Open(Options{Dir: tmp, Homes: true})
	must(t, err)
	home := homeOf(t, killed, "a.sh")
	must(t, os.Mkdir(filepath.Join(home, "dir"), 0o700), os.WriteFile(filepath.Join(home, "dir", "file"), nil, 0o600),
		os.Chmod(filepath.Join(home, "dir"), 0o500))
	create(t, killed, "1-1")
	must(t, killed.main.lock.Close()) // its process has ended
	w := open(t, Options{Dir: tmp})
	if entries, err := os.ReadDir(tmp); err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(w.Dir()) {
		t.Errorf("left are %v, %v", entries, err)
	}
}

// Protected files have their content before each run, however a hook has changed them.
func TestProtectedContent(t *testing.T) {
	w := open(t, Options{})
	library := filepath.Join(w.Dir(), "lib", "shell.sh")
	must(t, os.MkdirAll(filepath.Dir(library), 0o700), os.WriteFile(library, []byte("text"), 0o600), w.Protect())
	elsewhere := t.TempDir()
	must(t, os.WriteFile(filepath.Join(elsewhere, "shell.sh"), []byte("evil"), 0o600))
	for name, change := range map[string]func() error{
		"written": func() error { return os.WriteFile(library, []byte("evil"), 0o600) },
		"written with its times": func() error {
			info, err := os.Stat(library)
			return errors.Join(err, os.WriteFile(library, []byte("evil"), 0o600), os.Chtimes(library, info.ModTime(), info.ModTime()))
		},
		"another file": func() error { return errors.Join(os.Remove(library), os.WriteFile(library, []byte("evil"), 0o600)) },
		"a link": func() error {
			return errors.Join(os.Remove(library), os.Symlink(filepath.Join(elsewhere, "shell.sh"), library))
		},
		"a link to a directory": func() error {
			return errors.Join(os.RemoveAll(filepath.Dir(library)), os.Symlink(elsewhere, filepath.Dir(library)))
		},
		"a directory": func() error { return errors.Join(os.Remove(library), os.MkdirAll(filepath.Join(library, "x"), 0o700)) },
		"unreadable":  func() error { return os.Chmod(library, 0) },
	} {
		must(t, change())
		f := create(t, w, name)
		if text, err := os.ReadFile(library); err != nil || string(text) != "text" {
			t.Errorf("%s: the library is %q, %v", name, text, err)
		}
		must(t, w.Delete(f))
		info, err := os.Lstat(filepath.Dir(library))
		if err != nil || !info.IsDir() {
			t.Errorf("%s: the directory is %v, %v", name, info, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(elsewhere, "shell.sh")); err != nil || string(text) != "evil" {
		t.Errorf("a link was followed: %q, %v", text, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(library)); err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
}
