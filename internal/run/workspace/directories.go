package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// Directories are the paths that users set.
type Directories struct {
	Hooks string
	// Tmp is created if it is missing. Empty means that of the system: the workspace in it is private.
	Tmp string
	// Run is the parent of the files of runs. Empty means Tmp.
	Run string
	// InPod reports that the process runs in a container, where modes of volumes prove nothing.
	InPod bool
	Log   *slog.Logger
}

// Check makes the paths absolute and checks them, creates the temp directory, and warns when other users can replace files there, or fails.
// Errors name the flag.
func (d *Directories) Check() error {
	if d.Hooks == "" {
		return errors.New("the hooks directory is not set: give --hooks-dir")
	}
	d.Tmp = cmp.Or(d.Tmp, os.TempDir())
	err := d.check()
	if err == nil {
		err = d.warnOfExposure("--tmp-dir", d.Tmp)
	}
	d.Run = cmp.Or(d.Run, d.Tmp)
	if err == nil && d.Run != d.Tmp {
		err = d.warnOfExposure("--run-dir", d.Run)
	}
	return err
}

// check never creates the directory of runs: a typing error would put their files on another file system.
func (d *Directories) check() (err error) {
	for _, dir := range []struct {
		path       *string
		flag, name string
	}{{&d.Hooks, "--hooks-dir", "hooks directory"}, {&d.Tmp, "--tmp-dir", "temp directory"}, {&d.Run, "--run-dir", "directory of --run-dir"}} {
		if *dir.path == "" { // the files of runs are in Tmp
			continue
		}
		if *dir.path, err = filepath.Abs(*dir.path); err != nil {
			return fmt.Errorf("cannot find the %s: %w", dir.name, err)
		}
		if dir.path == &d.Tmp {
			if err := os.Mkdir(d.Tmp, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return fmt.Errorf("cannot make the temp directory: %w: make its parent, or give another one with --tmp-dir", err)
			}
		}
		info, err := os.Stat(*dir.path)
		switch {
		case errors.Is(err, os.ErrNotExist) && dir.path != &d.Run:
			return fmt.Errorf("there is no directory %s: make it, or give another one with %s", *dir.path, dir.flag)
		case err != nil:
			return fmt.Errorf("cannot use the directory of %s: %w", dir.flag, err)
		case !info.IsDir():
			return fmt.Errorf("%s is %s, which is not a directory", dir.flag, *dir.path)
		}
	}
	return nil
}
