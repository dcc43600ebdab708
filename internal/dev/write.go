package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Create writes a new file, completely or not at all.
func Create(path string, text []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}

// rewrite replaces the text of a file that still has the text which was read, completely or not at all.
func rewrite(path string, text, newText []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if now, err := os.ReadFile(path); err != nil {
		return err
	} else if !bytes.Equal(now, text) {
		return fmt.Errorf("%s has changed since its cases were started: run the command again", path)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".shell-operator-*")
	if err != nil {
		return err
	}
	_, err = file.Write(newText)
	if err = errors.Join(err, file.Chmod(info.Mode().Perm()), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
