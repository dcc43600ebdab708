//go:build !linux

package testenv

import "syscall"

// endWithParent has no way to tie a child to this process here: after the tests, end testcluster by hand.
func endWithParent() *syscall.SysProcAttr { return nil }

func lockThreadForever() {}
