package hookset

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

type file struct {
	text string
	mode fs.FileMode
}

// directory makes a directory without links in its path, with these files in it.
func directory(t *testing.T, files map[string]file) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(f.text), f.mode),
			os.Chmod(path, f.mode)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// shown is what is below a directory: the mode and the content of each file, links by their targets.
func shown(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path[len(dir):], "/")
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch {
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			all[name] = "-> " + target
			return err
		case entry.IsDir():
			all[name] = info.Mode().String()
		default:
			text, err := os.ReadFile(path)
			all[name] = info.Mode().String() + " " + string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCopyDirectory(t *testing.T) {
	elsewhere := directory(t, map[string]file{"shared.sh": {"shared", 0o755}})
	dir := directory(t, map[string]file{
		"hook.sh":       {"hook", 0o755},
		"lib/common.sh": {"common", 0o644},
		".settings":     {"hidden", 0o640},
		".git/config":   {"git", 0o644},
		"..1/m.sh":      {"mounted", 0o444},
		"suid":          {"suid", 0o4711 &^ 0o6},
	})
	link(t, "..1", filepath.Join(dir, "..data"))
	link(t, "..data/m.sh", filepath.Join(dir, "m.sh"))
	link(t, filepath.Join(dir, "..data"), filepath.Join(dir, "lib", "absolute"))
	link(t, filepath.Join(elsewhere, "shared.sh"), filepath.Join(dir, "shared.sh"))
	link(t, elsewhere, filepath.Join(dir, "shared"))
	link(t, "nowhere", filepath.Join(dir, "dangling"))
	link(t, "/no/such/file", filepath.Join(dir, "dangling-elsewhere"))
	link(t, "loop", filepath.Join(dir, "loop"))
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := copyDirectory(t.Context(), dir, to, 1<<20); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"":                   "drwx------",
		"hook.sh":            "-rwx------ hook",
		"lib":                "drwx------",
		"lib/common.sh":      "-rw------- common",
		".settings":          "-rw------- hidden",
		"..1":                "drwx------",
		"..1/m.sh":           "-rw------- mounted",
		"suid":               "-rwx------ suid",
		"..data":             "-> ..1",
		"m.sh":               "-> ..data/m.sh",
		"lib/absolute":       "-> ../..data",
		"shared.sh":          "-rwx------ shared",
		"shared":             "-> " + elsewhere,
		"dangling":           "-> nowhere",
		"dangling-elsewhere": "-> /no/such/file",
		"loop":               "-> loop",
	}
	got := shown(t, to)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%q: %q, want %q", name, got[name], want[name])
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("there is more: %q", got)
	}
	// The copy is complete after the original is removed.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"m.sh": "mounted", "lib/absolute/m.sh": "mounted"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A file that may not be read makes the copy impossible, unless it is hidden.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := directory(t, map[string]file{"hook": {"hook", 0o755}, ".other": {"", 0}})
	if err := copyDirectory(t.Context(), dir, filepath.Join(t.TempDir(), "copy"), 1<<20); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(filepath.Join(dir, "hook"), 0o111); err != nil {
		t.Fatal(err)
	}
	if err := copyDirectory(t.Context(), dir, filepath.Join(t.TempDir(), "copy"), 1<<20); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v", err)
	}
}
