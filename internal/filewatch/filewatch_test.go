package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// follow follows a directory and everything below it, and returns a channel of what the file shows at each call.
func follow(t *testing.T, dir, file string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	shown := make(chan string)
	ended := make(chan error, 1)
	go func() {
		ended <- Follow(ctx, Options{
			Directories: func() map[string]bool {
				dirs := map[string]bool{}
				_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
					if err == nil && entry.IsDir() {
						dirs[path] = true
					}
					return nil
				})
				return dirs
			},
			Changed: func() time.Duration {
				text, _ := os.ReadFile(filepath.Join(dir, file))
				select {
				case shown <- string(text):
				case <-ctx.Done():
				}
				return 0
			},
			Degraded: func(err error) { t.Errorf("degraded: %v", err) },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return shown
}

// await reads until the file shows what is wanted.
func await(t *testing.T, shown <-chan string, want string) {
	t.Helper()
	for {
		select {
		case text := <-shown:
			if text == want {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("never showed %q", want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFirstCallComesAtOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "before")
	await(t, follow(t, dir, "a"), "before")
}

func TestRenamedFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "one")
	shown := follow(t, dir, "a")
	await(t, shown, "one")
	write(t, filepath.Join(dir, "a.new"), "two")
	if err := os.Rename(filepath.Join(dir, "a.new"), filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	await(t, shown, "two")
}

// A directory that comes later is watched too: the second change in it is noticed.
func TestNewDirectory(t *testing.T) {
	dir := t.TempDir()
	shown := follow(t, dir, "sub/a")
	await(t, shown, "")
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sub", "a"), "one")
	await(t, shown, "one")
	write(t, filepath.Join(dir, "sub", "a"), "two")
	await(t, shown, "two")
}

// A volume is swapped as kubelet does it: a new directory, and a link that is renamed onto the old one.
func TestSwappedVolume(t *testing.T) {
	dir := t.TempDir()
	swap := func(version, text string) {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "a"), text)
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	swap("..1", "one")
	if err := os.Symlink("..data/a", filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	shown := follow(t, dir, "a")
	await(t, shown, "one")
	swap("..2", "two")
	await(t, shown, "two")
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	swap("..3", "three")
	await(t, shown, "three")
}

// A duration returned by Changed causes another call after it, though nothing changes.
func TestAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := Follow(ctx, Options{
		Directories: func() map[string]bool { return nil },
		Changed: func() time.Duration {
			if calls++; calls == 3 {
				cancel()
			}
			return time.Millisecond
		},
		Degraded: func(err error) { t.Errorf("degraded: %v", err) },
	})
	if err != nil || calls != 3 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}
