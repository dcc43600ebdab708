package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func open(t testing.TB, o Options) *Workspace {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w, err := Open(o)
	must(t, err)
	t.Cleanup(func() { must(t, w.Close()) })
	return w
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, w *Workspace, id string) *Files {
	t.Helper()
	f, err := w.Create("hook", id)
	must(t, err)
	return f
}

// The files of a run are private, empty, named by the run's id, and gone afterwards, whatever the hook has added.
func TestFiles(t *testing.T) {
	tmp, runDir := t.TempDir(), t.TempDir()
	w := open(t, Options{Dir: tmp, RunDir: runDir})
	f, err := w.Create("000-shell/pods.sh", "17-2")
	must(t, err)
	must(t, f.WriteContexts(func(w io.Writer) error { _, err := io.WriteString(w, "[]"); return err }))
	if name := filepath.Base(f.dir); !strings.HasPrefix(name, "hook-000-shell-pods-sh-17-2-") {
		t.Errorf("the directory is %s", name)
	}
	if filepath.Dir(filepath.Dir(filepath.Dir(f.dir))) != runDir || filepath.Dir(w.Dir()) != tmp {
		t.Errorf("the run is in %s, other files are in %s", f.dir, w.Dir())
	}
	seen := 0
	for _, variable := range f.Environment() {
		name, path, _ := strings.Cut(variable, "=")
		if name == "RUN_FAILURE_PATH" { // a library makes it
			continue
		}
		info, err := os.Lstat(path)
		must(t, err)
		want := int64(0)
		if path == f.Contexts() {
			want = 2
		}
		if info.Mode() != 0o600 || info.Size() != want {
			t.Errorf("%s: mode %v, %d bytes", variable, info.Mode(), info.Size())
		}
		seen++
	}
	if info, err := os.Stat(f.dir); err != nil || info.Mode() != fs.ModeDir|0o700 || seen != 8 {
		t.Errorf("mode %v, %v, %d variables", info.Mode(), err, seen)
	}
	must(t, os.Mkdir(filepath.Join(f.dir, "more"), 0o700), os.WriteFile(filepath.Join(f.dir, "more", "file"), nil, 0o600),
		os.WriteFile(f.path("metrics.json"), []byte("{}"), 0o600))
	if out, err := f.Outputs(0, false); err != nil || string(out.Metrics) != "{}" || out.Patch != nil {
		t.Errorf("the run handed back %v, %v", out, err)
	}
	if calls := f.Calls(); calls != nil {
		t.Errorf("before the first call: %q", calls)
	}
	must(t, os.WriteFile(f.CallsFile(), bytes.Repeat([]byte("x"), MaxCalls+1), 0o600))
	if calls := f.Calls(); len(calls) != MaxCalls {
		t.Errorf("%d bytes about calls", len(calls))
	}
	must(t, os.Remove(f.CallsFile()), syscall.Mkfifo(f.CallsFile(), 0o600))
	if calls := f.Calls(); calls != nil {
		t.Errorf("a pipe about calls: %q", calls)
	}
	must(t, w.Delete(f))
	if _, err := os.Stat(f.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// What a hook does to the file of its contexts is noticed, unless it leaves the content.
func TestContextsChanged(t *testing.T) {
	w := open(t, Options{Dir: t.TempDir()})
	for name, row := range map[string]struct {
		do   func(path string) error
		want bool
	}{
		"nothing":      {func(string) error { return nil }, false},
		"another mode": {func(path string) error { return os.Chmod(path, 0o644) }, false},
		"an appendix": {func(path string) error {
			file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = file.WriteString("x")
			return errors.Join(err, file.Close())
		}, true},
		"another file": {func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("{}"), 0o600), os.Rename(path+".new", path))
		}, true},
		"a link": {func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.Symlink(path+".old", path))
		}, true},
		"no file": {os.Remove, true},
	} {
		f, err := w.Create("hook", strings.ReplaceAll(name, " ", "-"))
		must(t, err)
		must(t, f.WriteContexts(func(w io.Writer) error { _, err := io.WriteString(w, "[]"); return err }))
		must(t, row.do(f.Contexts()))
		if got := f.ContextsChanged(); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
		must(t, w.Delete(f))
	}
}

func TestKeep(t *testing.T) {
	tmp := t.TempDir()
	w := open(t, Options{Dir: tmp, Keep: true})
	f := create(t, w, "1-1")
	must(t, w.Delete(f), w.Close())
	if _, err := os.Stat(f.path("metrics.json")); err != nil {
		t.Error(err)
	}
}

// Whatever a hook puts in place of its files, reading them ends, and the error names the variable and the fix.
func TestOutputsThatAreNoFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		replace func(path string) error
		want    string
	}{
		"a pipe": {func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"it is no longer a file, but a pipe: write into the file that is there"},
		"a device":    {func(path string) error { return os.Symlink("/dev/zero", path) }, "it is no longer a file, but a link"},
		"a directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "it is no longer a file, but a directory"},
		"nothing":     {func(string) error { return nil }, "the hook removed the file that $KUBERNETES_PATCH_PATH names"},
		"too much": {func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxOutput+1))
		}, "it is 33554433 bytes long, more than 33554432: hand back less in one run, or set settings.maxFileBytes"},
		"a link": {func(path string) error { return os.Symlink("/etc/hostname", path) }, "it is no longer a file, but a link"},
	} {
		t.Run(name, func(t *testing.T) {
			f := create(t, open(t, Options{}), "1-1")
			must(t, os.Remove(f.path("object-patch")), tt.replace(f.path("object-patch")))
			_, err := f.Outputs(0, false)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "$KUBERNETES_PATCH_PATH") {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// Removed or renamed files and directories are created again for the next run.
func TestRestore(t *testing.T) {
	w := open(t, Options{RunDir: t.TempDir()})
	library := filepath.Join(w.Dir(), "lib", "shell.sh")
	must(t, os.MkdirAll(filepath.Dir(library), 0o700), os.WriteFile(library, []byte("text"), 0o600), w.Protect())
	for _, test := range []struct {
		name   string
		remove func() error
	}{
		{"all", func() error { return os.RemoveAll(w.Dir()) }},
		{"the runs", func() error {
			return errors.Join(os.Chmod(filepath.Join(w.runs.path, runsName), 0o700), os.RemoveAll(w.runs.path))
		}},
		{"a file", func() error { return os.Remove(library) }},
		{"the lock", func() error { return os.Remove(filepath.Join(w.Dir(), lockName)) }},
		{"a file, by renaming it", func() error { return os.Rename(library, library+"-moved") }},
		{"a directory, by renaming it", func() error { return os.Rename(filepath.Dir(library), filepath.Dir(library)+"-moved") }},
	} {
		must(t, test.remove())
		f := create(t, w, test.name)
		_, err := f.Outputs(0, false)
		must(t, err)
		if text, err := os.ReadFile(library); err != nil || string(text) != "text" {
			t.Errorf("without %s: the library is %q, %v", test.name, text, err)
		}
		for _, d := range []*directory{w.main, w.runs} {
			sweep(filepath.Dir(d.path), w.log) // as another operator does at its start
			if _, err := os.Stat(d.path); err != nil {
				t.Errorf("without %s: %s is no longer locked", test.name, d.path)
			}
		}
	}
}

// Another user creates the directory after a cleaner of temporary files has removed it.
func TestRestoreOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	w := open(t, Options{})
	for name, plant := range map[string]func() error{
		"directory": func() error { return os.Mkdir(w.Dir(), 0o777) },
		"link":      func() error { return os.Symlink(t.TempDir(), w.Dir()) },
	} {
		must(t, os.RemoveAll(w.Dir()), plant())
		must(t, os.WriteFile(filepath.Join(w.Dir(), lockName), []byte(lockText), 0o600), os.Lchown(w.Dir(), 12345, 12345))
		if _, err := w.Create("hook", name); err == nil || !strings.Contains(err.Error(), "the user with the id 12345 has replaced") {
			t.Errorf("a %s of another user: %v", name, err)
		}
		must(t, os.RemoveAll(w.Dir()))
	}
	create(t, w, "restored")
}

// sweep removes the files of a killed operator and logs it. Other entries with such names stay.
func TestSweep(t *testing.T) {
	tmp, victim := t.TempDir(), t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{tmp}, names...)...) }
	workspace := func(name, lock string, mode fs.FileMode) {
		t.Helper()
		must(t, os.MkdirAll(in(name, "hook-a"), 0o700), os.WriteFile(in(name, lockName), []byte(lock), 0o600), os.Chmod(in(name), mode))
	}
	must(t, os.WriteFile(filepath.Join(victim, lockName), []byte(lockText), 0o600),
		os.WriteFile(filepath.Join(victim, "diary"), []byte("precious"), 0o600))
	workspace("operator-1", lockText, 0o700)
	must(t, os.Symlink(victim, in("operator-1", "more")))
	workspace("operator-backup", lockText, 0o700)
	workspace("operator-2", "", 0o700)
	workspace("operator-3", "1234\n", 0o700)
	workspace("operator-4", lockText+"and more", 0o700)
	workspace("operator-5", lockText, 0o755)
	workspace("operator-6", lockText, 0o700)
	foreign, err := os.OpenFile(in("operator-6", lockName), os.O_RDWR, 0)
	must(t, err)
	defer foreign.Close()
	if !locked(foreign) {
		t.Fatal("cannot lock")
	}
	must(t, os.Mkdir(in("operator-7"), 0o700), os.Symlink(filepath.Join(victim, lockName), in("operator-7", lockName)))
	must(t, os.Mkdir(in("operator-8"), 0o700), syscall.Mkfifo(in("operator-8", lockName), 0o600))
	must(t, os.Mkdir(in("operator-9"), 0o700), os.WriteFile(in("operator-10"), nil, 0o600), os.Symlink(victim, in("operator-11")))
	if os.Geteuid() == 0 {
		workspace("operator-12", lockText, 0o700)
		must(t, os.Chown(in("operator-12"), 65534, 65534))
	}
	before, err := filepath.Glob(in("*"))
	must(t, err)

	var log bytes.Buffer
	living := open(t, Options{Dir: tmp, Log: slog.New(slog.NewTextHandler(&log, nil))})

	after, err := filepath.Glob(in("*"))
	must(t, err)
	want := append(slices.DeleteFunc(before, func(path string) bool { return path == in("operator-1") }), living.Dir())
	slices.Sort(want)
	if !slices.Equal(after, want) {
		t.Errorf("left are %q, want %q", after, want)
	}
	for _, name := range []string{lockName, "diary"} {
		if _, err := os.Stat(filepath.Join(victim, name)); err != nil {
			t.Error(err)
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, in("operator-1")) ||
		!strings.Contains(text, "Removed a directory that a killed operator left") {
		t.Errorf("the log is %s", text)
	}
}

// A file of heads is written on request, is no older than the contexts, and goes with them. One that cannot be written is not there.
func TestHeads(t *testing.T) {
	w := open(t, Options{Dir: t.TempDir()})
	for i, test := range []struct {
		occupy, written bool
	}{{false, true}, {true, false}} {
		f, err := w.Create("h", fmt.Sprint(i))
		must(t, err)
		must(t, f.WriteContexts(func(w io.Writer) error { _, err := io.WriteString(w, "[]"); return err }))
		path := strings.TrimSuffix(f.Contexts(), ".json") + ".heads"
		if test.occupy {
			must(t, os.Mkdir(path, 0o700))
		}
		f.WriteHeads([]byte("heads"))
		text, err := os.ReadFile(path)
		if (err == nil) != test.written || test.written && string(text) != "heads" || f.ContextsChanged() {
			t.Errorf("%d: %q, %v", i, text, err)
		}
		must(t, w.Delete(f))
		if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
			t.Errorf("%d: the directory is still there", i)
		}
	}
}
