package chaos

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ownDisk is set for a test that has been started again where it may mount.
const ownDisk = "CHAOS_MAY_MOUNT"

// mountable tells whether this test may mount a disk. Where it may not, it is started again in namespaces of its own, where
// every user may, and false is returned: then its outcome is that of this test.
func mountable(t *testing.T) bool {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4k")
	if err == nil {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if !errors.Is(err, syscall.EPERM) || os.Getenv(ownDisk) != "" {
		t.Skipf("needs a disk of its own, and may not mount one: %v", err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownDisk+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &ended):
		t.Skipf("needs a disk of its own: this user may neither mount one nor have namespaces: %v", err)
	case err != nil:
		t.Errorf("in namespaces of its own: %v\n%s", err, out)
	default:
		t.Logf("in namespaces of its own:\n%s", out)
	}
	return false
}

// disk gives the operator a temp directory on a small disk of its own.
func disk(size string) func(*world) {
	return func(w *world) {
		dir := w.t.TempDir()
		w.must(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
		w.t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
		w.tmp = filepath.Join(dir, "tmp")
	}
}

// onDisk is alone with a temp directory on a small disk.
func onDisk(t *testing.T, name string, number uint64, do func(*world)) {
	t.Helper()
	wanted(t, name, true)
	if mountable(t) {
		alone(t, name, number, true, disk("16m"), do)
	}
}

// A hook fills the disk; its run fails, its files go, and all is well again.
func TestDiskFilledByHook(t *testing.T) {
	onDisk(t, "hook-fills-the-disk", 203, func(w *world) {
		w.act("plain", "fill 100", "fill 100")
		time.Sleep(time.Second)
	})
}

// Somebody else fills the disk. Runs fail and are tried again until there is room.
func TestDiskFull(t *testing.T) {
	onDisk(t, "disk-full", 204, func(w *world) {
		path := filepath.Join(filepath.Dir(w.tmp), "other")
		f, err := os.Create(path)
		w.must(err)
		enough := make(chan struct{})
		var filling sync.WaitGroup
		filling.Go(func() { // what runs give back is taken at once
			block := make([]byte, 4096)
			for {
				select {
				case <-enough:
					return
				default:
				}
				if _, err := f.Write(block); err != nil {
					time.Sleep(100 * time.Microsecond)
				}
			}
		})
		failed := w.op.UntilLog("Hook failed. Will retry after delay.", "hook", "plain")
		close(enough)
		filling.Wait()
		w.must(f.Close())
		if !strings.Contains(failed.Fields["error"], "no space left on device") || !strings.Contains(failed.Fields["error"], "is the temp directory full") {
			w.t.Errorf("the error does not tell: %s", failed.Fields["error"])
		}
		time.Sleep(2 * time.Second)
		w.must(os.Remove(path))
	})
}

// The temp directory becomes read-only and writable again. (A disk cannot be made so while files on it are open for
// writing, so another one is put in front of it.)
func TestDiskReadOnly(t *testing.T) {
	onDisk(t, "disk-read-only", 205, func(w *world) {
		w.must(syscall.Mount("tmpfs", w.tmp, "tmpfs", syscall.MS_RDONLY, ""))
		w.t.Cleanup(func() { _ = syscall.Unmount(w.tmp, 0) })
		failed := w.op.UntilLog("Hook failed. Will retry after delay.", "hook", "plain")
		if !strings.Contains(failed.Fields["error"], "read-only file system") {
			w.t.Errorf("the error does not tell: %s", failed.Fields["error"])
		}
		time.Sleep(2 * time.Second)
		w.must(syscall.Unmount(w.tmp, syscall.MNT_DETACH))
	})
}
