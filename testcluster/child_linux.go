package main

import "syscall"

// self is this very file, even after a newer build has replaced it on disk.
func self() string { return "/proc/self/exe" }

// childAttributes keep the terminal's Ctrl-C from the children, which must stop in order, and let none of them
// outlive a supervisor that was killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
