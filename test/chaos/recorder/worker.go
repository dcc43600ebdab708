package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// serve handles runs one after the other, in this process, until the operator closes the socket. HOOK.workers gets the pid.
func serve() error {
	own := filepath.Join(os.Getenv("CHAOS_DIR"), filepath.Base(os.Args[0]))
	pids, err := os.OpenFile(own+".workers", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(pids, os.Getpid()); err != nil {
		return err
	}
	if err := pids.Close(); err != nil {
		return err
	}
	if err := os.Unsetenv("HOOK_WORKER_FD"); err != nil {
		return err
	}
	environment := os.Environ()
	socket := os.NewFile(3, "socket")
	in := bufio.NewReader(socket)
	for _, err = fmt.Fprintln(socket, "ready"); err == nil; {
		var variables []string
		for {
			variable, err := in.ReadString(0)
			if err != nil {
				return nil // the operator has closed the socket
			}
			if variable == "\x00" {
				break
			}
			variables = append(variables, strings.TrimSuffix(variable, "\x00"))
		}
		os.Clearenv()
		for _, v := range append(environment[:len(environment):len(environment)], variables...) {
			name, value, _ := strings.Cut(v, "=")
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
		status := 0
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, "recorder:", err)
			status = 1
		}
		_, err = fmt.Fprintln(socket, os.Getenv("HOOK_RUN"), status)
	}
	return err
}
