//go:build !linux

package main

import (
	"os"
	"syscall"
)

func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// childAttributes keep the terminal's Ctrl-C from the children, which must stop in order. Elsewhere than on Linux a
// killed supervisor leaves its children behind.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
