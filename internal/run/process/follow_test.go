package process

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// Without pidfd support in the kernel, the end of a process is still detected.
func TestEndWithoutPidfd(t *testing.T) {
	for _, test := range []struct {
		name, script string
		timeout      time.Duration
		stdout, err  string
		heldOpen     bool
	}{
		{name: "success", script: "echo one; echo two", stdout: "one|two"},
		{name: "failure", script: "echo one; echo bad >&2; exit 3", stdout: "one", err: "hook.sh FAILED: bad"},
		{name: "closed output", script: "echo one; exec >&- 2>&-; sleep 0.05", stdout: "one"},
		{name: "held open", script: "sleep 20 & echo one", stdout: "one", heldOpen: true},
		{name: "too long", script: "sleep 60", timeout: 50 * time.Millisecond,
			err: "hook.sh FAILED: still running after 50ms, killed: raise settings.executionTimeout of the hook or --hook-timeout, " +
				"or make the hook faster"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := New(Options{DrainDelay: 500 * time.Millisecond})
			e.endOf = signalEnd
			var stdout []string
			result, err := e.Execute(t.Context(), Invocation{
				Hook: "hook.sh", Path: hookFile(t, "#!/bin/sh\n"+test.script), Env: []string{"PATH=" + os.Getenv("PATH")}, Timeout: test.timeout,
				Stdout: func(line []byte) { stdout = append(stdout, string(line)) }, Stderr: func([]byte) {},
			})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if lines(stdout) != test.stdout || got != test.err || result.HeldOpen != test.heldOpen {
				t.Errorf("printed %q, error %q, held open %v", lines(stdout), got, result.HeldOpen)
			}
			if result.Usage.Wall <= 0 || result.Usage.MaxRSS <= 0 {
				t.Errorf("used %+v", result.Usage)
			}
		})
	}
}

// When waiting fails, the process has nevertheless ended when Execute returns, and the error contains the reason.
func TestEndThatCannotBeWaitedFor(t *testing.T) {
	e := New(Options{})
	var pid int
	e.endOf = func(p int) (*signal, error) { pid = p; return nil, errors.New("no more files") }
	_, err := e.Execute(context.Background(), Invocation{
		Hook: "hook.sh", Path: hookFile(t, "#!/bin/sh\nwhile echo text; do :; done"),
		Stdout: func([]byte) {}, Stderr: func([]byte) {},
	})
	if err == nil || err.Error() != "hook.sh FAILED: cannot wait for the process: no more files" {
		t.Errorf("error %v", err)
	}
	if alive(pid) {
		t.Error("the process is still there")
	}
}
