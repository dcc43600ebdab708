package debug

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Place is where the socket of an operator is.
type Place struct {
	// Socket is the path. Chosen reports that a flag or variable set it: then no other path is tried.
	Socket string
	Chosen bool
	// Runtime is a private directory of the user, for users without write permission on the directory of Socket. It is
	// created when needed.
	Runtime string
}

// sockets are the paths that clients try.
func (p Place) sockets() []string {
	if p.Chosen || p.Runtime == "" {
		return []string{p.Socket}
	}
	return []string{p.Socket, filepath.Join(p.Runtime, filepath.Base(p.Socket))}
}

// errBusy reports that another operator listens.
var errBusy = errors.New("another operator listens there")

// listen takes the socket. Unless the user chose it, another path is tried; if that fails too, the operator runs without
// a socket and the listener is nil.
func (p Place) listen(log *slog.Logger) (net.Listener, error) {
	l, err := listenUnix(p.Socket)
	if err == nil || p.Chosen {
		return l, withHint(p.Socket, err)
	}
	if p.Runtime == "" {
		log.Warn("There is no debug socket: name one with --debug-unix-socket", "path", p.Socket, "error", err.Error())
		return nil, nil
	}
	name := filepath.Base(p.Socket)
	if errors.Is(err, errBusy) {
		log.Warn("Another operator listens on the debug socket, so this one takes another: give it one of its own with --debug-unix-socket",
			"path", p.Socket)
	} else {
		log.Debug("The default debug socket cannot be used", "path", p.Socket, "error", err.Error())
	}
	if err = makePrivate(p.Runtime); err == nil {
		l, err = listenUnix(filepath.Join(p.Runtime, name))
	}
	if err != nil {
		log.Warn("There is no debug socket: name one with --debug-unix-socket", "path", p.Runtime, "error", err.Error())
		return nil, nil
	}
	return l, nil
}

// withHint adds the remedy to an error of listenUnix.
func withHint(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errBusy):
		return fmt.Errorf("cannot take the debug socket %s: %w: give each operator a --debug-unix-socket of its own", path, err)
	}
	return fmt.Errorf("cannot take the debug socket %s: %w: choose another path with --debug-unix-socket", path, err)
}

// maxSocketPath is what all systems allow.
const maxSocketPath = 103

// listenUnix listens on a path and replaces the stale socket of an operator that has ended.
func listenUnix(path string) (net.Listener, error) {
	if absolute, err := filepath.Abs(path); err == nil && len(absolute) <= maxSocketPath {
		path = absolute // clients compare it
	}
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path has %d bytes, sockets can have %d", len(path), maxSocketPath)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return errors.New("there is a file that is not a socket")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		conn.Close()
		return errBusy
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, os.ErrNotExist):
		return nil
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, os.ErrDeadlineExceeded):
		return errBusy // it listens, but has too much to do
	}
	return err
}

// makePrivate creates a directory, or checks that an existing one belongs to this user only.
func makePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return checkPrivate(dir)
}

func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case !ok || int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s can be entered by others: its mode should be 0700", dir)
	}
	return nil
}
