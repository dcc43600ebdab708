// Package timerslack lets the monitor thread of Go's runtime sleep lazily, on Linux.
//
// While a program works, that thread looks after the others every 20 µs. Where timers are dear, as they are in virtual
// machines, it took a quarter of the CPU time of a busy operator. The kernel may let a thread sleep longer than it asks for,
// by its timer slack, which without privileges nobody but the thread itself can set. But threads inherit it, and it outlives
// execve: so the program sets that of its own thread and executes itself once more, and the monitor is born with it.
//
// Callers may rely on this:
//   - The second image has the process, the arguments and the open files of the first one. It makes no third one.
//   - Where that is impossible or of no use, the first image goes on as it is.
//   - The variable that the second image is told by is out of the environment when Enter returns.
//   - The thread that calls Enter has its old timer slack again.
//
// Threads that the runtime makes for other work may have the slack of the monitor: they wait for events, seldom for a time.
// Those who start processes, which inherit it, call Set.
package timerslack

import (
	"os"
	"strconv"
	"time"
)

// Variable tells the second image the timer slack that the process was started with, in nanoseconds. A program that finds it
// does not execute itself, whatever it says; 0 is for people who want that.
const Variable = "SHELL_OPERATOR_TIMER_SLACK"

// lazy is the timer slack of the monitor. Half of it wins less, and twice as much wins no more. A goroutine that waits for
// the processor of one that hangs in a system call may wait that much longer.
const lazy = time.Millisecond

// Image is one of the two images of a program. The zero value makes no second one.
type Image struct {
	// Slack is the timer slack that processes should be started with. 0 is that of whatever thread starts them.
	Slack time.Duration
	first bool
}

// Enter is what a program calls first, before it reads its environment.
func Enter() Image {
	text, told := os.LookupEnv(Variable)
	if !told {
		return Image{first: true}
	}
	_ = os.Unsetenv(Variable)
	ns, err := strconv.ParseUint(text, 10, 32)
	slack := time.Duration(ns)
	if err != nil || slack >= lazy {
		return Image{} // it is not from us, and hooks would sleep for seconds longer than they ask for
	}
	Set(slack)
	return Image{Slack: slack}
}
