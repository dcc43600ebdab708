package first

import (
	"os"
	"syscall"
)

// callsVariable names the file of the run that calls are recorded in. Its name is also in internal/run/kubectl.
const callsVariable = "SHELL_OPERATOR_KUBECTL_CALLS"

// calls is that file, or nothing.
var calls string

// Verb is the command that is called: one of Served, or "other".
var Verb = "other"

// Record appends a line about this call: its command, and the way that it takes. Its arguments may be secret; a second line notes that
// they name Secrets, by which the operator keeps no values of the run. The file belongs to a
// run that may have ended, so errors mean nothing.
func Record(way string) {
	if calls == "" {
		return
	}
	// Not blocking: a hook may have put a pipe in its place.
	const flags = syscall.O_WRONLY | syscall.O_APPEND | syscall.O_CREAT | syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC
	file, err := syscall.Open(calls, flags, 0o600)
	if err != nil {
		return
	}
	lines := Verb + " " + way + "\n"
	for _, arg := range os.Args[1:] {
		if contains(lower(arg), "secret") {
			lines += "secrets\n"
			break
		}
	}
	_, _ = syscall.Write(file, []byte(lines)) // in one piece: other calls of the run append, too
	_ = syscall.Close(file)
}
