package debug

import (
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// peer returns the uid of the process at the other end of a Unix socket, or "unknown".
func peer(conn net.Conn) string {
	uid := "unknown"
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return uid
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return uid
	}
	_ = raw.Control(func(fd uintptr) {
		if credentials, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = strconv.FormatUint(uint64(credentials.Uid), 10)
		}
	})
	return uid
}
