package process

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of times in /proc/PID/stat.
const tick = 10 * time.Millisecond

// usage is what a process has used with the children that it has waited for.
type usage struct {
	user, system time.Duration
	resident     int64
	// own is that of the process without its children.
	own time.Duration
}

// usageOf reads /proc/PID/stat.
func usageOf(pid int) (u usage) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return u
	}
	// The name of the program, in parentheses, can have any character. It is the second field; fields has those behind it.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	number := func(field int) int64 {
		if field-3 >= len(fields) {
			return 0
		}
		n, _ := strconv.ParseInt(string(fields[field-3]), 10, 64)
		return n
	}
	const utime, stime, cutime, cstime, rss = 14, 15, 16, 17, 24
	u.user = time.Duration(number(utime)+number(cutime)) * tick
	u.system = time.Duration(number(stime)+number(cstime)) * tick
	u.own = time.Duration(number(utime)+number(stime)) * tick
	u.resident = number(rss) * int64(unix.Getpagesize())
	return u
}
