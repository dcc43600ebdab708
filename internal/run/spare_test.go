package run

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
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
	if len(entries) != len(f.written()) {
		t.Errorf("there are %d files", len(entries))
	}
	for _, path := range f.written() {
		info, err := os.Lstat(path)
		if err != nil {
			t.Error(err)
		} else if info.Mode() != 0o600 || info.Size() != 0 {
			t.Errorf("%s is %v and has %d bytes", info.Name(), info.Mode(), info.Size())
		}
	}
}

// Empty files serve the next run, which finds them under other names.
func TestEmptyFilesAreUsedAgain(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells who has a file open")
	}
	w := openWorkspace(t)
	first := openFiles(t, w)
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
	if left, _ := filepath.Glob(filepath.Join(w.Dir(), "*", "binding-context.json")); len(left) > 0 {
		t.Errorf("%v is left", left)
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
		"makes a file":                  func(_ *testing.T, f *files) error { return os.WriteFile(path("more")(f), nil, 0o600) },
		"makes a directory":             func(_ *testing.T, f *files) error { return os.MkdirAll(path("more/and/more")(f), 0o700) },
		"removes a file":                func(_ *testing.T, f *files) error { return os.Remove(f.http) },
		"removes all":                   func(_ *testing.T, f *files) error { return os.RemoveAll(f.dir) },
		"replaces the directory by a link": func(t *testing.T, f *files) error {
			elsewhere := t.TempDir()
			for _, path := range f.written() {
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
		t.Run(name, func(t *testing.T) {
			w := openWorkspace(t)
			f := openFiles(t, w)
			if err := do(t, f); err != nil {
				t.Fatal(err)
			}
			closeFiles(t, w, f)
			next := openFiles(t, w)
			wantFresh(t, next)
			if _, err := os.Lstat(f.dir); !os.IsNotExist(err) {
				t.Errorf("the directory of the run is still there: %v", err)
			}
		})
	}
}

// A process that a hook has left behind disturbs no other run, though it has a file open.
func TestFilesThatAreStillOpen(t *testing.T) {
	w := openWorkspace(t)
	f := openFiles(t, w)
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
	if n, _ := reading.Read(make([]byte, 10)); n != 0 {
		t.Error("another run's output can be read")
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
				if err := makeEmpty(f.contexts); err != nil {
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
