package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// runsScore is the score of runs: 500 more than the operator has, whose score is set before it starts.
var runsScore = sync.OnceValue(func() []byte {
	own, _ := os.ReadFile("/proc/self/oom_score_adj")
	score, _ := strconv.Atoi(strings.TrimSpace(string(own)))
	return strconv.AppendInt(nil, int64(min(score+500, 1000)), 10)
})

// preferForOOM makes the kernel end a process and its children, rather than the operator, where memory is short: with the operator all
// hooks end. A process may always raise the score. Errors mean that it is as before, or has ended. No os.File: it would be polled.
func preferForOOM(pid int) {
	if f, err := unix.Open(fmt.Sprintf("/proc/%d/oom_score_adj", pid), unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		_, _ = unix.Write(f, runsScore())
		_ = unix.Close(f)
	}
}
