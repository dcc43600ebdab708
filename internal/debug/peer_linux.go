package debug

import (
	"bytes"
	"cmp"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// peer returns the process at the other end of a Unix socket. It is called when the client connects, before a hook can end that has left a
// process behind.
func peer(conn net.Conn) client {
	credentials, err := credentialsOf(conn)
	if err != nil {
		return client{uid: "unknown", hook: true}
	}
	return client{uid: strconv.FormatUint(uint64(credentials.Uid), 10), hook: descends(int(credentials.Pid), hookRoots()...)}
}

// credentialsOf returns the process at the other end of a Unix socket, as the kernel knows it.
func credentialsOf(conn net.Conn) (credentials *unix.Ucred, err error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("it is no Unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return credentials, cmp.Or(err, failed)
}

// hookRoots are the processes whose descendants may be hooks: this one. In a Pod also the first one, whose children processes become that
// hooks have left behind: the operator, its parent, as tini, or with shareProcessNamespace the pause process, which has started none.
// Processes of kubectl exec have no parent there.
func hookRoots() []int {
	return hookRootsOf(os.Getpid(), os.Getppid(), os.Getenv("KUBERNETES_SERVICE_HOST") != "")
}

func hookRootsOf(pid, parent int, inPod bool) []int {
	if !inPod || parent > 1 {
		return []int{pid}
	}
	return []int{pid, 1}
}

// descends reports whether a process, or one of its parents, was started by one of the roots. It does so of a process that has ended, too:
// nothing is known about that. A pid of 0 is outside of our namespace.
func descends(pid int, roots ...int) bool {
	if pid == os.Getpid() {
		return false
	}
	for range 4096 { // pids may be used again while this goes on
		if slices.Contains(roots, pid) {
			return true
		}
		if pid <= 1 {
			return false
		}
		parent, err := parentOf(pid)
		if err != nil {
			// With hidepid, processes of other users are not in /proc.
			return !errors.Is(unix.Kill(pid, 0), unix.EPERM)
		}
		pid = parent
	}
	return true
}

// parentOf reads the parent of a process. Its name, in parentheses, may have any byte.
func parentOf(pid int) (int, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, errors.New("it has no parent")
	}
	return strconv.Atoi(string(fields[1]))
}
