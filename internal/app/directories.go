package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// checkDirectories completes the paths, and creates the temp directory. It returns the path of a directory that only this process
// uses, and has to remove, or nothing.
func checkDirectories(o *Options) (own string, err error) {
	for _, dir := range []struct {
		path       *string
		flag, name string
	}{{&o.HooksDir, "--hooks-dir", "hooks"}, {&o.TmpDir, "--tmp-dir", "temp"}} {
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
	if err := os.Mkdir(o.TmpDir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("cannot make the temp directory: %w: make its parent, or give another one with --tmp-dir", err)
	}
	for flag, dir := range map[string]string{"--hooks-dir": o.HooksDir, "--tmp-dir": o.TmpDir} {
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
	if err := checkRunDir(o); err != nil {
		return "", err
	}
	warnOfExposure(o, "--tmp-dir", o.TmpDir)
	if o.RunDir != o.TmpDir {
		warnOfExposure(o, "--run-dir", o.RunDir)
	}
	return own, nil
}

// checkRunDir makes the path absolute. Unlike the temp directory it has no default of its own, so it is never created: a
// typing error would put the files of runs on another file system.
func checkRunDir(o *Options) error {
	if o.RunDir == "" {
		o.RunDir = o.TmpDir
		return nil
	}
	abs, err := filepath.Abs(o.RunDir)
	if err != nil {
		return fmt.Errorf("cannot find the directory of --run-dir: %w", err)
	}
	o.RunDir = abs
	if info, err := os.Stat(abs); err != nil {
		return fmt.Errorf("cannot use the directory of --run-dir: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("--run-dir is %s, which is not a directory", abs)
	}
	return nil
}
