package hookset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tooLarge is the error of a directory that exceeds the limit.
type tooLarge struct{ limit int64 }

func (e *tooLarge) Error() string {
	return fmt.Sprintf("the files are larger than %d MiB in all", e.limit>>20)
}

// copying is a copy of a directory that is being made.
type copying struct {
	ctx      context.Context
	from, to string
	// left counts the bytes that may follow, of at most limit.
	left, limit int64
}

// copyDirectory copies what is below from, which has no links in its path, into to, which is made. When it fails nothing is left.
func copyDirectory(ctx context.Context, from, to string, limit int64) error {
	c := copying{ctx, from, to, limit, limit}
	err := filepath.WalkDir(from, c.visit)
	if err != nil {
		return errors.Join(err, os.RemoveAll(to))
	}
	return nil
}

func (c *copying) visit(path string, entry fs.DirEntry, err error) error {
	if c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	name, relErr := filepath.Rel(c.from, path)
	if relErr != nil {
		return relErr
	}
	if err != nil {
		if dispensable(name, err) {
			return fs.SkipDir
		}
		return err
	}
	to := filepath.Join(c.to, name)
	switch typ := entry.Type(); {
	case entry.Name() == ".git" && typ.IsDir():
		return fs.SkipDir // large, restless and of no use to hooks
	case typ.IsDir():
		return os.Mkdir(to, 0o700)
	case typ&fs.ModeSymlink != 0:
		return c.link(path, to)
	case typ.IsRegular():
		if err := c.file(path, to); err != nil && !dispensable(name, err) {
			return err
		}
	}
	return nil // pipes, sockets and devices have no content
}

// dispensable reports hidden files that cannot be read or no longer exist: they are no hooks, and often belong to
// another program.
func dispensable(name string, err error) bool {
	hidden := strings.HasPrefix(name, ".") || strings.Contains(name, string(filepath.Separator)+".")
	return hidden && (errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist))
}

// link makes a link of the copy. One to something below the directory leads to the same thing below the copy. Files elsewhere
// are copied; directories elsewhere, and links that lead nowhere, are what they were.
func (c *copying) link(path, to string) error {
	target, err := os.Readlink(path)
	if err != nil {
		return err
	}
	next := target
	if !filepath.IsAbs(next) {
		next = filepath.Join(filepath.Dir(path), next)
	}
	if name, err := filepath.Rel(c.from, next); err == nil && filepath.IsLocal(name) {
		if target, err = filepath.Rel(filepath.Dir(to), filepath.Join(c.to, name)); err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Mode().IsRegular():
		return c.file(path, to)
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP):
		return os.Symlink(next, to)
	}
	return err
}

// file copies a file. Users other than the operator's have no permissions on the copy.
func (c *copying) file(path, to string) (err error) {
	in, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if info.Size() > c.left {
		return &tooLarge{c.limit}
	}
	mode := fs.FileMode(0o600)
	if info.Mode()&0o111 != 0 {
		mode = 0o700
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	n, err := io.Copy(out, io.LimitReader(in, c.left+1))
	if c.left -= n; err == nil && c.left < 0 { // it grows
		err = &tooLarge{c.limit}
	}
	return err
}
