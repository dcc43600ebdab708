package workspace

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// Directories are the paths that users set.
type Directories struct {
	Hooks string
	// Tmp is created if it is missing; a directory of the process's own is made if it is empty.
	Tmp string
	// Run is the parent of the files of runs. Empty means Tmp.
	Run string
	// InPod reports that the process runs in a container, where modes of volumes prove nothing.
	InPod bool
	Log   *slog.Logger
}

// Check makes the paths absolute and checks them, creates the temp directory, and warns when other users can replace files there.
// It returns the path of a directory that only this process uses and has to remove, or an empty string. Errors name the flag.
func (d *Directories) Check() (own string, err error) {
	for _, dir := range []struct {
		path       *string
		flag, name string
	}{{&d.Hooks, "--hooks-dir", "hooks"}, {&d.Tmp, "--tmp-dir", "temp"}} {
		if *dir.path == "" && dir.name == "temp" {
			made, err := os.MkdirTemp("", "shell-operator-")
			if err != nil {
				return "", fmt.Errorf("cannot make a temp directory: %w", err)
			}
			*dir.path, own = made, made
			defer func() {
				if err != nil {
					err = errors.Join(err, os.Remove(made))
				}
			}()
		}
		if *dir.path == "" {
			return "", fmt.Errorf("the %s directory is not set: give %s", dir.name, dir.flag)
		}
		abs, err := filepath.Abs(*dir.path)
		if err != nil {
			return "", fmt.Errorf("cannot find the %s directory: %w", dir.name, err)
		}
		*dir.path = abs
	}
	if err := os.Mkdir(d.Tmp, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("cannot make the temp directory: %w: make its parent, or give another one with --tmp-dir", err)
	}
	for flag, dir := range map[string]string{"--hooks-dir": d.Hooks, "--tmp-dir": d.Tmp} {
		info, err := os.Stat(dir)
		if errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("there is no directory %s: make it, or give another one with %s", dir, flag)
		}
		if err != nil {
			return "", fmt.Errorf("cannot use the directory of %s: %w", flag, err)
		}
		if !info.IsDir() {
			return "", fmt.Errorf("%s is %s, which is not a directory", flag, dir)
		}
	}
	if err := d.checkRun(); err != nil {
		return "", err
	}
	d.warnOfExposure("--tmp-dir", d.Tmp)
	if d.Run != d.Tmp {
		d.warnOfExposure("--run-dir", d.Run)
	}
	return own, nil
}

// checkRun never creates the directory: a typing error would put the files of runs on another file system.
func (d *Directories) checkRun() error {
	if d.Run == "" {
		d.Run = d.Tmp
		return nil
	}
	abs, err := filepath.Abs(d.Run)
	if err != nil {
		return fmt.Errorf("cannot find the directory of --run-dir: %w", err)
	}
	d.Run = abs
	if info, err := os.Stat(abs); err != nil {
		return fmt.Errorf("cannot use the directory of --run-dir: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("--run-dir is %s, which is not a directory", abs)
	}
	return nil
}
