package debug

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// checkListener rejects a socket that is not the operator's. Hooks have the user of the operator, so they can move its socket away and
// listen at its path; but the kernel keeps the path that each listener has taken, as long as it listens. So a listener whose path is
// another one was moved here, and of two listeners with this path one is not the operator. A listener of another network namespace
// cannot be checked: it is no hook of an operator in this one.
func checkListener(conn net.Conn, path string) error {
	credentials, err := credentialsOf(conn)
	if err != nil {
		return fmt.Errorf("cannot identify its listener: %w", err)
	}
	if own := os.Geteuid(); own != 0 && credentials.Uid != 0 && int(credentials.Uid) != own {
		return fmt.Errorf("%w: user %d listens", errReplaced, credentials.Uid)
	}
	taken := conn.RemoteAddr().String()
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	here, same := false, 0
	for line := range strings.Lines(string(text)) {
		// Num RefCount Protocol Flags Type St Inode Path, where the path may have spaces.
		rest, flags := strings.TrimSuffix(line, "\n"), ""
		for n := range 7 {
			var field string
			field, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
			if n == 3 {
				flags = field
			}
		}
		listener := rest
		if flags != listening || listener == "" {
			continue
		}
		here = here || listener == taken
		if filepath.Base(listener) == filepath.Base(path) && samePath(listener, path) {
			same++
		}
	}
	if here && (same != 1 || !samePath(taken, path)) {
		return errReplaced
	}
	return nil
}

// listening are the flags of a socket that listens: __SO_ACCEPTCON.
const listening = "00010000"

// samePath compares the path of a listener with another one; their directories may be reached by links. The operator's is absolute, if that
// is short enough.
func samePath(listener, path string) bool {
	real := func(path string) string {
		if absolute, err := filepath.Abs(path); err == nil {
			path = absolute
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			path = filepath.Join(dir, filepath.Base(path))
		}
		return path
	}
	return listener == path || filepath.IsAbs(listener) && real(listener) == real(path)
}
