package hookset

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// said is what somebody who looks at the files would say.
type said struct {
	changed string
	// other is a file that is not what it was, though nobody has said so yet.
	other string
}

func (s *said) Changed() string             { return s.changed }
func (s *said) Same(path string) bool       { return path != s.other }
func at(k *Copies, path string) string      { l := k.Take(); defer l.Release(); return l.At(path) }
func gone(path string) bool                 { _, err := os.Lstat(path); return errors.Is(err, fs.ErrNotExist) }
func inCopy(k *Copies, path string) bool    { return strings.HasPrefix(path, k.opts.Dir) }
func count(log *bytes.Buffer, s string) int { return strings.Count(log.String(), s) }

func newHooks(t *testing.T, limit int64) (*Copies, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	return NewCopies(CopiesOptions{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil)), Limit: limit}), &log
}

func use(t *testing.T, k *Copies, dir string, files CopiedFiles) *Copy {
	t.Helper()
	c, complete := k.Copy(dir, files)
	if !complete {
		t.Fatal("the copy is not complete")
	}
	k.Use(c)
	return c
}

// Runs use the files as long as they are what was loaded, and the copy otherwise.
func TestWhereRunsAre(t *testing.T) {
	dir := directory(t, map[string]file{"sub/hook": {"v1", 0o755}})
	hook := filepath.Join(dir, "sub", "hook")
	k, log := newHooks(t, 0)
	files := &said{}
	use(t, k, dir, files)
	if got := at(k, hook); got != hook {
		t.Errorf("before a change: %s", got)
	}
	files.changed = "lib.sh"
	k.Look()
	k.Look()
	moved := at(k, hook)
	text, err := os.ReadFile(moved)
	if !inCopy(k, moved) || err != nil || string(text) != "v1" || filepath.Base(filepath.Dir(moved)) != "sub" {
		t.Errorf("after a change: %s, %q, %v", moved, text, err)
	}
	if n := count(log, "hooks run from a copy of what was loaded"); n != 1 || count(log, "path=lib.sh") != 1 {
		t.Errorf("it was told %d times: %s", n, log)
	}
	files.changed = ""
	k.Look()
	if got := at(k, hook); got != hook {
		t.Errorf("after the files were put back: %s", got)
	}
	if got := at(k, "/elsewhere/hook"); got != "/elsewhere/hook" {
		t.Errorf("a hook that is not below the directory: %s", got)
	}
}

// A run that is about to begin sees that its hook has changed, before anybody has told.
func TestChangeNobodyHasTold(t *testing.T) {
	dir := directory(t, map[string]file{"hook": {"v1", 0o755}})
	hook := filepath.Join(dir, "hook")
	k, _ := newHooks(t, 0)
	use(t, k, dir, &said{changed: "", other: ""})
	files := k.current.files.(*said)
	l := k.Take()
	defer l.Release()
	files.changed, files.other = hook, hook
	untold := 0
	k.opts.Untold = func() { untold++ }
	for range 2 {
		if got := l.At(hook); !inCopy(k, got) || untold != 1 {
			t.Errorf("the run is at %s, and has told so %d times", got, untold)
		}
	}
}

// The next set may have changed already when it comes in force.
func TestChangedAgain(t *testing.T) {
	dir := directory(t, map[string]file{"hook": {"v1", 0o755}})
	k, _ := newHooks(t, 0)
	files := &said{}
	c, _ := k.Copy(dir, files)
	files.changed = "hook"
	k.Use(c)
	if got := at(k, filepath.Join(dir, "hook")); !inCopy(k, got) {
		t.Errorf("the run is at %s", got)
	}
}

// A run keeps the files that it took, even of a set that is not in force any more; then they go.
func TestRemoval(t *testing.T) {
	dir := directory(t, map[string]file{"hook": {"v1", 0o755}})
	hook := filepath.Join(dir, "hook")
	k, _ := newHooks(t, 0)
	first := use(t, k, dir, &said{})
	one, two := k.Take(), k.Take()
	if err := os.WriteFile(hook, []byte("v2"), 0o755); err != nil {
		t.Fatal(err)
	}
	second := use(t, k, dir, &said{})
	for _, l := range []*Lease{one, two} {
		if text, err := os.ReadFile(l.At(hook)); err != nil || string(text) != "v1" {
			t.Errorf("%q, %v", text, err)
		}
		l.Release()
	}
	if !gone(first.dir) || gone(second.dir) {
		t.Errorf("first copy gone: %t, second: %t", gone(first.dir), gone(second.dir))
	}
	use(t, k, dir, &said{})
	if !gone(second.dir) {
		t.Error("a copy that nobody uses is still there")
	}
	refused, _ := k.Copy(dir, &said{})
	k.Drop(refused)
	if !gone(refused.dir) {
		t.Error("a copy of a set that was refused is still there")
	}
	left, err := os.ReadDir(k.opts.Dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%d things are left, %v", len(left), err)
	}
}

// Files that change while they are copied make no copy.
func TestInconsistent(t *testing.T) {
	k, log := newHooks(t, 0)
	c, complete := k.Copy(directory(t, map[string]file{"hook": {"v1", 0o755}}), &said{changed: "hook"})
	left, err := os.ReadDir(k.opts.Dir)
	if complete || c.dir != "" || err != nil || len(left) > 0 || log.Len() > 0 {
		t.Errorf("complete %t, copy %q, left %v, %v, log %s", complete, c.dir, left, err, log)
	}
}

// Where there is no copy runs use the files, and one warning says so until there is one again.
func TestNoCopy(t *testing.T) {
	dir := directory(t, map[string]file{"hook": {"version 1", 0o755}})
	hook := filepath.Join(dir, "hook")
	k, log := newHooks(t, 5)
	files := &said{}
	use(t, k, dir, files)
	use(t, k, dir, files)
	const warning = `level=WARN msg="No copy of the hooks is kept: while they are loaded anew, and while that fails, hooks run from files that have changed" path=`
	if count(log, warning) != 1 || count(log, "the files are larger than 0 MiB in all") != 1 {
		t.Errorf("log %s", log)
	}
	files.changed = hook
	k.Look()
	if got := at(k, hook); got != hook {
		t.Errorf("the run is at %s", got)
	}
	k.opts.Limit = 1 << 20
	use(t, k, dir, &said{})
	k.opts.Limit = 5
	use(t, k, dir, &said{})
	if count(log, warning) != 2 {
		t.Errorf("log %s", log)
	}
}

// Somebody who cleans up the temp directory takes the copy away, and nothing else.
func TestCopyIsGone(t *testing.T) {
	dir := directory(t, map[string]file{"hook": {"v1", 0o755}})
	hook := filepath.Join(dir, "hook")
	k, _ := newHooks(t, 0)
	files := &said{}
	c := use(t, k, dir, files)
	files.changed = hook
	k.Look()
	if err := os.RemoveAll(c.dir); err != nil {
		t.Fatal(err)
	}
	if got := at(k, hook); got != hook {
		t.Errorf("the run is at %s", got)
	}
}

// Where nothing can be executed there is no copy.
func TestNoexec(t *testing.T) {
	dir := directory(t, map[string]file{"hook": {"v1", 0o755}})
	k, log := newHooks(t, 0)
	if !k.executable() {
		t.Skip("nothing can be executed in the temp directory")
	}
	k.opts.Dir = noexec(t)
	c := use(t, k, dir, &said{})
	if c.dir != "" || count(log, "the file system is mounted with noexec: choose another one with --tmp-dir") != 1 {
		t.Errorf("copy %q, log %s", c.dir, log)
	}
	if left, err := os.ReadDir(k.opts.Dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// noexec returns a directory where nothing can be executed.
func noexec(t *testing.T) string {
	t.Helper()
	for _, where := range []string{"/dev/shm", "/run", "/run/lock", "/dev/mqueue"} {
		dir, err := os.MkdirTemp(where, "noexec-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if k := NewCopies(CopiesOptions{Dir: dir}); !k.executable() {
			return dir
		}
	}
	t.Skip("there is no such file system")
	return ""
}
