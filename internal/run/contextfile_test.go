package run

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// writeContexts writes the contexts of a run, in two parts as those of many objects are.
func writeContexts(t *testing.T, w *Workspace, f *files, content []byte) {
	t.Helper()
	out := w.contextOutput(f)
	for _, part := range [][]byte{content[:len(content)*3/4], content[len(content)*3/4:]} {
		if _, err := out.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(f.contexts)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("the contexts are in %v, %v", info, err)
	}
	if got, err := os.ReadFile(f.contexts); err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%d bytes were written and are not the same as the %d that are there, %v", len(content), len(got), err)
	}
}

func contextsOf(size int) []byte { return bytes.Repeat([]byte("c"), size) }

// A large context file serves the next run that needs one, whatever the sizes are.
func TestLargeContextsAreWrittenOver(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells who has a file open")
	}
	w := openWorkspace(t)
	var first uint64
	for i, size := range []int{2 * largeContexts, 2 * largeContexts, 4 * largeContexts, 100, 2*largeContexts - 1} {
		f := openFiles(t, w)
		writeContexts(t, w, f, bytes.Repeat([]byte{'a' + byte(i)}, size))
		switch number := inode(t, f.contexts); {
		case i == 0:
			first = number
		case size < largeContexts && number == first:
			t.Error("few contexts are in a file for many")
		case size >= largeContexts && number != first:
			t.Errorf("%d bytes are in a new file", size)
		}
		path := f.contexts
		closeFiles(t, w, f)
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the contexts of a run that is over are still there: %v", err)
		}
	}
}

// What anybody could still read or write is not for another run.
func TestLargeContextsThatAreNotAlone(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, path string) error{
		"open for reading": func(t *testing.T, path string) error {
			f, err := os.Open(path)
			t.Cleanup(func() { f.Close() })
			return err
		},
		"open for writing": func(t *testing.T, path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			t.Cleanup(func() { f.Close() })
			return err
		},
		"a second name": func(t *testing.T, path string) error {
			return os.Link(path, filepath.Join(filepath.Dir(path), "other"))
		},
		"another mode": func(_ *testing.T, path string) error { return os.Chmod(path, 0o644) },
		"a link": func(t *testing.T, path string) error {
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			if err := os.Rename(path, elsewhere); err != nil {
				return err
			}
			return os.Symlink(elsewhere, path)
		},
		"removed": func(_ *testing.T, path string) error { return os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			w := openWorkspace(t)
			f := openFiles(t, w)
			writeContexts(t, w, f, contextsOf(2*largeContexts))
			if err := do(t, f.contexts); err != nil {
				t.Fatal(err)
			}
			closeFiles(t, w, f)
			if len(w.kept.files) > 0 {
				t.Errorf("%v is for another run", w.kept.files)
			}
			next := openFiles(t, w)
			wantFresh(t, next)
			writeContexts(t, w, next, contextsOf(2*largeContexts))
		})
	}
}

// Who cleans up temporary files, or changes one, disturbs no run.
func TestLargeContextsThatAreChanged(t *testing.T) {
	for name, do := range map[string]func(path string) error{
		"removed":    os.Remove,
		"mode":       func(path string) error { return os.Chmod(path, 0o666) },
		"unreadable": func(path string) error { return os.Chmod(path, 0) },
		"a link": func(path string) error {
			if err := os.Rename(path, path+"-moved"); err != nil {
				return err
			}
			return os.Symlink(path+"-moved", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := openWorkspace(t)
			f := openFiles(t, w)
			writeContexts(t, w, f, contextsOf(2*largeContexts))
			closeFiles(t, w, f)
			for _, kept := range w.kept.files {
				if err := do(kept.path); err != nil {
					t.Fatal(err)
				}
			}
			writeContexts(t, w, openFiles(t, w), contextsOf(3*largeContexts))
		})
	}
}

func TestLargeContextsAreBounded(t *testing.T) {
	w := openWorkspace(t)
	content := contextsOf(mostKept / 3)
	var all []*files
	for range 5 {
		f := openFiles(t, w)
		writeContexts(t, w, f, content)
		all = append(all, f)
	}
	for _, f := range all {
		closeFiles(t, w, f)
	}
	wantKept(t, w, 3)
}

// wantKept fails when there are more files for contexts than count, or fewer where the system can tell who has them open.
func wantKept(t *testing.T, w *Workspace, count int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		count = 0
	}
	left, err := filepath.Glob(filepath.Join(w.Dir(), "contexts-*"))
	if err != nil || len(left) != count {
		t.Errorf("there are %v, %v, want %d", left, err, count)
	}
}

// When contexts cannot be written, what is kept is no longer in the way of the next attempt.
func TestLargeContextsMakeRoom(t *testing.T) {
	w := openWorkspace(t)
	f := openFiles(t, w)
	writeContexts(t, w, f, contextsOf(2*largeContexts))
	closeFiles(t, w, f)
	wantKept(t, w, 1)
	h := hookOf("-")
	r := New([]*hook.Hook{h}, Options{Workspace: w})
	err := r.writeContexts(filesIn(filepath.Join(w.Dir(), "gone")), r.Task(change(h, 0)))
	if err == nil || !strings.Contains(err.Error(), "cannot write the binding context file") {
		t.Errorf("error %v", err)
	}
	wantKept(t, w, 0)
}

// What no run wants for a while is removed.
func TestLargeContextsExpire(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, err := OpenWorkspace(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		f := openFiles(t, w)
		writeContexts(t, w, f, contextsOf(2*largeContexts))
		closeFiles(t, w, f)
		wantKept(t, w, 1)
		time.Sleep(keptFor)
		synctest.Wait()
		wantKept(t, w, 0)
	})
}
