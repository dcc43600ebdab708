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

// mountable reports whether this test may mount a disk. Without the permission, the test runs again in namespaces of
// its own, where every user may mount, and false is returned: that outcome is the one of this test.
func mountable(t *testing.T) bool {
	t.Helper()
	err := mayMount(t)
	if err == nil {
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

func mayMount(t *testing.T) error {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
		return err
	}
	return syscall.Unmount(dir, 0)
}

// disk gives the operator a temp directory on a small disk of its own.
func disk(size string) func(*world) {
	return func(w *world) {
		dir := w.t.TempDir()
		w.must(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
		w.t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
		w.tmp, w.smallDisk = filepath.Join(dir, "tmp"), true
	}
}

// onDisk is alone with a temp directory on a small disk.
func onDisk(t *testing.T, name string, number uint64, do func(*world)) {
	t.Helper()
	wanted(t, name)
	if mountable(t) {
		alone(t, name, number, disk("16m"), do)
	}
}

// A hook fills the disk; its run fails, its files go, and all is well again.
func TestDiskFilledByHook(t *testing.T) {
	onDisk(t, "hook-fills-the-disk", 203, func(w *world) {
		w.act("plain", "fill 100", "fill 100")
		time.Sleep(time.Second)
	})
}

// Another process fills the disk. Runs fail and are retried until there is room.
func TestDiskFull(t *testing.T) {
	onDisk(t, "disk-full", 204, func(w *world) {
		w.writer.lengthen(5000) // a small file may fit where no block is free
		full := fillDisk(w)
		failed := w.op.UntilLog("Hook failed. Will retry after delay.", "hook", "plain")
		if !strings.Contains(failed.Fields["error"], "no space left on device") ||
			!strings.Contains(failed.Fields["error"], "is the directory of --tmp-dir or --run-dir full") {
			w.t.Errorf("the error has no reason: %s", failed.Fields["error"])
		}
		time.Sleep(2 * time.Second)
		full.end()
	})
}

// fullDisk is a disk that stays full, because space that is freed is taken immediately.
type fullDisk struct {
	w      *world
	file   *os.File
	enough chan struct{}
	gone   sync.WaitGroup
}

func fillDisk(w *world) *fullDisk {
	f, err := os.Create(filepath.Join(filepath.Dir(w.tmp), "other"))
	w.must(err)
	full := &fullDisk{w: w, file: f, enough: make(chan struct{})}
	full.gone.Go(func() {
		block := make([]byte, 4096)
		for {
			select {
			case <-full.enough:
				return
			default:
			}
			if _, err := f.Write(block); err != nil {
				time.Sleep(100 * time.Microsecond)
			}
		}
	})
	return full
}

func (full *fullDisk) end() {
	close(full.enough)
	full.gone.Wait()
	full.w.must(full.file.Close())
	full.w.must(os.Remove(full.file.Name()))
}

// diskFaults happen to the temp directory, for pairs.
func diskFaults() []fault {
	small := disk("16m")
	var full *fullDisk
	return []fault{
		{name: "hook-fills-the-disk", prepare: small, touches: theDisk, end: nothing, begin: func(w *world) {
			w.act("plain", "fill 100", "fill 100")
		}},
		{name: "disk-full", prepare: small, touches: theDisk, begin: func(w *world) { full = fillDisk(w) }, end: func(*world) { full.end() }},
		{name: "disk-read-only", prepare: small, touches: theDisk, begin: readOnly, end: func(w *world) {
			w.must(syscall.Unmount(w.tmp, syscall.MNT_DETACH))
		}},
	}
}

// readOnly makes the temp directory read-only. (A disk cannot be made so while files on it are open for writing, so
// another one is put in front of it.)
func readOnly(w *world) {
	w.must(syscall.Mount("tmpfs", w.tmp, "tmpfs", syscall.MS_RDONLY, ""))
	w.t.Cleanup(func() { _ = syscall.Unmount(w.tmp, 0) })
	w.destroyed = true           // a run that goes on over it may end well, but its files are out of sight
	w.rest.runs = len(w.hooks()) // the directories of runs that end now are out of sight, until the operator ends
}

// The temp directory becomes read-only and writable again.
func TestDiskReadOnly(t *testing.T) {
	onDisk(t, "disk-read-only", 205, func(w *world) {
		readOnly(w)
		failed := w.op.UntilLog("Hook failed. Will retry after delay.", "hook", "plain")
		if !strings.Contains(failed.Fields["error"], "read-only file system") {
			w.t.Errorf("the error has no reason: %s", failed.Fields["error"])
		}
		time.Sleep(2 * time.Second)
		w.must(syscall.Unmount(w.tmp, syscall.MNT_DETACH))
	})
}
