package run

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func inode(t testing.TB, path string) uint64 {
	t.Helper()
	var stat syscall.Stat_t
	if err := syscall.Lstat(path, &stat); err != nil {
		t.Fatal(err)
	}
	return stat.Ino
}

func openFiles(t testing.TB, w *Workspace) *files {
	t.Helper()
	f, err := w.open("hook")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func closeFiles(t testing.TB, w *Workspace, f *files) {
	t.Helper()
	if err := w.close(f); err != nil {
		t.Fatal(err)
	}
}

// wantFresh fails when the files of a run are not empty, private and all that there is.
func wantFresh(t *testing.T, f *files) {
	t.Helper()
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.dir); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("the directory is %v, %v", info.Mode(), err)
	}
	if len(entries) != len(f.all()) {
		t.Errorf("there are %d files", len(entries))
	}
	for i, path := range f.all() {
		info, err := os.Lstat(path)
		if err != nil {
			t.Error(err)
		} else if info.Mode() != 0o600 || info.Size() > leftIn(i) {
			t.Errorf("%s is %v and has %d bytes", info.Name(), info.Mode(), info.Size())
		}
	}
}

// heldFiles are those of a run that follows some others at its leisure, so that they are open.
func heldFiles(t testing.TB, w *Workspace) *files {
	t.Helper()
	f := openFiles(t, w)
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(f.dir, long, long); err != nil {
		t.Fatal(err)
	}
	closeFiles(t, w, f)
	if f = openFiles(t, w); runtime.GOOS == "linux" && !f.stillHeld() {
		t.Fatal("the files are not held")
	}
	return f
}

// everyState is what files of runs can be in.
var everyState = map[string]func(t testing.TB, w *Workspace) *files{"new": openFiles, "held": heldFiles}

// Files serve the next run, which finds them empty and under other names.
func TestFilesAreUsedAgain(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells who has a file open")
	}
	w := openWorkspace(t)
	before := heldFiles(t, w)
	for range 3 {
		writeContexts(t, w, before, []byte("secret"))
		if err := os.WriteFile(before.metrics, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := before.outputs(); err != nil || string(out.Metrics) != "{}" || out.Patch != nil {
			t.Errorf("the run handed back %q, %v", out, err)
		}
		numbers := [6]uint64{}
		for i, path := range before.all() {
			numbers[i] = inode(t, path)
		}
		closeFiles(t, w, before)
		next := openFiles(t, w)
		wantFresh(t, next)
		for i, path := range next.all() {
			if inode(t, path) != numbers[i] {
				t.Errorf("%s is a new file", filepath.Base(path))
			}
		}
		if next.dir == before.dir {
			t.Error("the next run has the directory of the one before")
		}
		before = next
	}
}

// What somebody else has open is another file in the next run; the others serve again.
func TestFilesThatNobodyHasOpenAreUsedAgain(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells who has a file open")
	}
	for name, files := range everyState {
		t.Run(name, func(t *testing.T) { testFilesThatNobodyHasOpenAreUsedAgain(t, files) })
	}
}

func testFilesThatNobodyHasOpenAreUsedAgain(t *testing.T, open func(testing.TB, *Workspace) *files) {
	w := openWorkspace(t)
	first := open(t, w)
	metrics, patch := inode(t, first.metrics), inode(t, first.patch)
	for path, text := range map[string]string{first.contexts: "secret", first.patch: "secret"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// What was written into is another file in the next run, even if its number should be the same.
	kept, err := os.Open(first.patch)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	closeFiles(t, w, first)
	if _, err := os.Lstat(first.dir); !os.IsNotExist(err) {
		t.Errorf("the directory of the run is still there: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(w.Dir(), "*", "binding-context.json"))
	for _, path := range left {
		if size, err := sizeOf(path); err != nil || size > leftContexts {
			t.Errorf("%d bytes of contexts are left in %s, %v", size, path, err)
		}
	}
	second := openFiles(t, w)
	wantFresh(t, second)
	if second.dir == first.dir {
		t.Error("the second run has the directory of the first")
	}
	if inode(t, second.metrics) != metrics {
		t.Error("an empty file was not used again")
	}
	if inode(t, second.patch) == patch {
		t.Error("a file with content was used again")
	}
}

// Whatever a hook does to its files, the next run has its own.
func TestFilesAfterWhatHooksDo(t *testing.T) {
	path := func(name string) func(f *files) string {
		return func(f *files) string { return filepath.Join(f.dir, name) }
	}
	for name, do := range map[string]func(t *testing.T, f *files) error{
		"writes":                        func(_ *testing.T, f *files) error { return os.WriteFile(f.metrics, []byte("{}"), 0o600) },
		"changes a mode":                func(_ *testing.T, f *files) error { return os.Chmod(f.metrics, 0o666) },
		"opens the directory to others": func(_ *testing.T, f *files) error { return os.Chmod(f.dir, 0o755) },
		"changes its contexts":          func(_ *testing.T, f *files) error { return os.WriteFile(f.contexts, []byte("{}"), 0o600) },
		"removes its contexts":          func(_ *testing.T, f *files) error { return os.Remove(f.contexts) },
		"makes a file":                  func(_ *testing.T, f *files) error { return os.WriteFile(path("more")(f), nil, 0o600) },
		"makes a directory":             func(_ *testing.T, f *files) error { return os.MkdirAll(path("more/and/more")(f), 0o700) },
		"removes a file":                func(_ *testing.T, f *files) error { return os.Remove(f.http) },
		"removes all":                   func(_ *testing.T, f *files) error { return os.RemoveAll(f.dir) },
		"replaces the directory by a link": func(t *testing.T, f *files) error {
			elsewhere := t.TempDir()
			for _, path := range f.all() {
				if err := os.Rename(path, filepath.Join(elsewhere, filepath.Base(path))); err != nil {
					return err
				}
			}
			if err := os.Remove(f.dir); err != nil {
				return err
			}
			return os.Symlink(elsewhere, f.dir)
		},
		"puts a pipe in place": func(_ *testing.T, f *files) error {
			_ = os.Remove(f.patch)
			return syscall.Mkfifo(f.patch, 0o600)
		},
		"puts a link in place": func(t *testing.T, f *files) error {
			_ = os.Remove(f.patch)
			return os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), f.patch)
		},
		"puts a directory in place": func(_ *testing.T, f *files) error {
			_ = os.Remove(f.patch)
			return os.Mkdir(f.patch, 0o700)
		},
		"keeps a second name": func(t *testing.T, f *files) error {
			other := filepath.Join(filepath.Dir(f.dir), "other")
			t.Cleanup(func() {
				if err := os.WriteFile(other, []byte("late"), 0o600); err != nil {
					t.Error(err)
				}
			})
			return os.Link(f.metrics, other)
		},
	} {
		for state, open := range everyState {
			t.Run(name+", "+state, func(t *testing.T) {
				w := openWorkspace(t)
				f := open(t, w)
				writeContexts(t, w, f, []byte("contexts"))
				if err := do(t, f); err != nil {
					t.Fatal(err)
				}
				closeFiles(t, w, f)
				next := openFiles(t, w)
				wantFresh(t, next)
				if _, err := os.Lstat(f.dir); !os.IsNotExist(err) {
					t.Errorf("the directory of the run is still there: %v", err)
				}
				writeContexts(t, w, next, []byte("more contexts"))
			})
		}
	}
}

// What a hook hands back is found, however it came into the file.
func TestOutputsOfHeldFiles(t *testing.T) {
	for name, do := range map[string]func(f *files) error{
		"written": func(f *files) error { return os.WriteFile(f.patch, []byte("{}"), 0o600) },
		"moved there": func(f *files) error {
			if err := os.WriteFile(f.dir+"/new", []byte("{}"), 0o600); err != nil {
				return err
			}
			return os.Rename(f.dir+"/new", f.patch)
		},
		"in another directory of the name": func(f *files) error {
			if err := os.Rename(f.dir, f.dir+"-old"); err != nil {
				return err
			}
			if err := os.Mkdir(f.dir, 0o700); err != nil {
				return err
			}
			for _, path := range f.all() {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					return err
				}
			}
			return os.WriteFile(f.patch, []byte("{}"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := openWorkspace(t)
			f := heldFiles(t, w)
			if err := do(f); err != nil {
				t.Fatal(err)
			}
			if out, err := f.outputs(); err != nil || string(out.Patch) != "{}" || out.Metrics != nil {
				t.Errorf("the run handed back %q, %v", out, err)
			}
			closeFiles(t, w, f)
			wantFresh(t, openFiles(t, w))
		})
	}
}

// A process that a hook has left behind disturbs no other run, though it has a file open.
func TestFilesThatAreStillOpen(t *testing.T) {
	for name, files := range everyState {
		t.Run(name, func(t *testing.T) { testFilesThatAreStillOpen(t, files) })
	}
}

func testFilesThatAreStillOpen(t *testing.T, open func(testing.TB, *Workspace) *files) {
	w := openWorkspace(t)
	f := open(t, w)
	contexts, err := os.Open(f.contexts)
	if err != nil {
		t.Fatal(err)
	}
	defer contexts.Close()
	left, err := os.OpenFile(f.metrics, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	reading, err := os.Open(f.patch)
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	closeFiles(t, w, f)
	next := openFiles(t, w)
	if _, err := left.WriteString(`{"name":"late"}`); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(next.patch, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := next.outputs()
	if err != nil || out.Metrics != nil || string(out.Patch) != "{}" {
		t.Errorf("the run handed back %q, %q, %v", out.Metrics, out.Patch, err)
	}
	writeContexts(t, w, next, []byte("secret"))
	for name, file := range map[string]*os.File{"output": reading, "contexts": contexts} {
		if n, _ := file.Read(make([]byte, 10)); n != 0 {
			t.Errorf("another run's %s can be read", name)
		}
	}
}

// Who cleans up temporary files takes nothing from a run that begins later.
func TestSpareFilesThatAreRemoved(t *testing.T) {
	for _, pattern := range []string{"*/metrics.json", "spare-*", "*"} {
		w := openWorkspace(t)
		a, b := openFiles(t, w), openFiles(t, w)
		closeFiles(t, w, a)
		closeFiles(t, w, b)
		paths, err := filepath.Glob(filepath.Join(w.Dir(), pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("nothing is like %s, %v", pattern, err)
		}
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
		wantFresh(t, openFiles(t, w))
		wantFresh(t, openFiles(t, w))
	}
}

func TestSpareFilesAreFew(t *testing.T) {
	w := openWorkspace(t)
	var all []*files
	for range 3 * mostSpare {
		all = append(all, openFiles(t, w))
	}
	for _, f := range all {
		closeFiles(t, w, f)
	}
	entries, err := os.ReadDir(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != mostSpare+1 { // the lock
		t.Errorf("%d directories are left", len(entries)-1)
	}
}

// BenchmarkFiles makes and removes the files of a run that hands nothing back, and of one that wrote metrics.
func BenchmarkFiles(b *testing.B) {
	text := bytes.Repeat([]byte("x"), 2000)
	for name, output := range map[string]string{"empty": "", "metrics": "{}"} {
		b.Run(name, func(b *testing.B) {
			w, err := OpenWorkspace(b.TempDir(), false)
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			b.ReportAllocs()
			for b.Loop() {
				f := openFiles(b, w)
				contexts := w.contextOutput(f)
				if _, err := contexts.Write(text); err != nil {
					b.Fatal(err)
				}
				if err := contexts.Close(); err != nil {
					b.Fatal(err)
				}
				if _, err := os.ReadFile(f.contexts); err != nil { // as hooks do
					b.Fatal(err)
				}
				if output != "" {
					if err := os.WriteFile(f.metrics, []byte(output), 0o600); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := f.outputs(); err != nil {
					b.Fatal(err)
				}
				closeFiles(b, w, f)
			}
		})
	}
}

// Whatever becomes of files, none stays open when the workspace has ended.
func TestHeldFilesAreClosed(t *testing.T) {
	count := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("there is no list of open files here")
		}
		return len(open)
	}
	before := count()
	w, err := OpenWorkspace(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(f *files){
		"nothing":            func(*files) {},
		"large contexts":     func(f *files) { writeContexts(t, w, f, contextsOf(2*largeContexts)) },
		"large again":        func(f *files) { writeContexts(t, w, f, contextsOf(2*largeContexts)) },
		"no directory":       func(f *files) { _ = os.RemoveAll(f.dir) },
		"another file there": func(f *files) { _ = os.WriteFile(f.dir+"/more", nil, 0o600) },
		"no file":            func(f *files) { _ = os.Remove(f.metrics) },
	} {
		for range 2 {
			f := heldFiles(t, w)
			do(f)
			if err := w.close(f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if after := count(); after != before {
		t.Errorf("%d files are open, %d were before", after, before)
	}
}
