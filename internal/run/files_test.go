package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func openWorkspace(t *testing.T) *Workspace {
	t.Helper()
	w, err := OpenWorkspace(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// Whatever a hook puts in place of its files, reading them ends, and the error names the variable and what to do.
func TestOutputsThatAreNoFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		replace func(path string) error
		want    string
	}{
		"a pipe":      {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "it is no longer a file, but a pipe: write into the file that is there"},
		"a device":    {func(path string) error { return os.Symlink("/dev/zero", path) }, "it is no longer a file, but a device"},
		"a directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "it is no longer a file, but a directory"},
		"nothing":     {func(string) error { return nil }, "the hook removed the file that $KUBERNETES_PATCH_PATH names"},
		"too much": {func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, maxOutput+1)
		}, "it is 268435457 bytes long, more than 268435456: hand back less in one run"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := openWorkspace(t).open("hook")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(f.patch); err != nil {
				t.Fatal(err)
			}
			if err := tt.replace(f.patch); err != nil {
				t.Fatal(err)
			}
			_, err = f.outputs()
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "$KUBERNETES_PATCH_PATH") {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// A workspace that somebody has removed, in part or as a whole, is there again for the next run.
func TestWorkspaceMends(t *testing.T) {
	w := openWorkspace(t)
	library := filepath.Join(w.Dir(), "lib", "shell.sh")
	if err := os.MkdirAll(filepath.Dir(library), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(library, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Remember(); err != nil {
		t.Fatal(err)
	}
	wantMended := func(gone string) {
		t.Helper()
		f, err := w.open("hook")
		if err != nil {
			t.Fatalf("without %s: %v", gone, err)
		}
		if _, err := f.outputs(); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(library)
		if err != nil || string(text) != "text" {
			t.Errorf("without %s the library is %q, %v", gone, text, err)
		}
		sweep(filepath.Dir(w.Dir())) // another operator starts
		if _, err := os.Stat(f.dir); err != nil {
			t.Errorf("without %s the workspace is no longer locked", gone)
		}
	}
	for _, gone := range []string{w.Dir(), library, filepath.Join(w.Dir(), lockName)} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		wantMended(gone)
	}
	for _, moved := range []string{library, filepath.Dir(library)} {
		if err := os.Rename(moved, moved+"-moved"); err != nil {
			t.Fatal(err)
		}
		wantMended(moved)
	}
}

// Links in a shared temp directory lead to nothing of others, whoever has put them there; what a dead operator has left
// goes, and what is in use stays.
func TestSweep(t *testing.T) {
	tmp, victim := t.TempDir(), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	in := func(names ...string) string { return filepath.Join(append([]string{tmp}, names...)...) }
	must(os.WriteFile(filepath.Join(victim, lockName), nil, 0o600))
	must(os.WriteFile(filepath.Join(victim, "diary"), []byte("precious"), 0o600))
	must(os.Symlink(victim, in("operator-link")))
	must(os.MkdirAll(in("operator-dead", "hook-a"), 0o700))
	must(os.WriteFile(in("operator-dead", lockName), nil, 0o600))
	must(os.Symlink(victim, in("operator-dead", "more")))
	must(os.Mkdir(in("operator-planted"), 0o700))
	must(os.Symlink(filepath.Join(victim, lockName), in("operator-planted", lockName)))
	must(os.Mkdir(in("operator-young"), 0o700)) // may be about to make its lock
	must(os.WriteFile(in("operator-file"), nil, 0o600))
	living, err := OpenWorkspace(tmp, false)
	must(err)
	t.Cleanup(func() { _ = living.Close() })
	sweep(tmp)
	left, _ := filepath.Glob(in("*"))
	want := []string{living.Dir(), in("operator-file"), in("operator-link"), in("operator-planted"), in("operator-young")}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
	for _, name := range []string{lockName, "diary"} {
		if _, err := os.Stat(filepath.Join(victim, name)); err != nil {
			t.Error(err)
		}
	}
}
