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

// usageOf reads from /proc/PID/stat what a process has used with the children that it has waited for. MaxRSS is its current resident set.
func usageOf(pid int) (u Usage) {
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
	u.User = time.Duration(number(utime)+number(cutime)) * tick
	u.System = time.Duration(number(stime)+number(cstime)) * tick
	u.MaxRSS = number(rss) * int64(unix.Getpagesize())
	return u
}
