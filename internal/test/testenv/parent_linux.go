package testenv

import (
	"runtime"
	"syscall"
)

// endWithParent makes a child end when this process does, even by a panic or a timeout of the tests.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

func lockThreadForever() { runtime.LockOSThread() }
