package process

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// needTracing skips a test where processes may not be traced.
func needTracing(t *testing.T) {
	t.Helper()
	if !LimitsProcesses {
		t.Skipf("no limits on %s", runtime.GOOS)
	}
	e := New(Options{Limited: func(late error) {
		if late != nil {
			t.Skip("no tracing here:", late)
		}
	}})
	if _, err := e.Execute(t.Context(), fewFiles(script(t, "#!/bin/sh\n"), func([]byte) {})); err != nil {
		t.Fatal(err)
	}
}

// fewFiles is a run of a file with a limit.
func fewFiles(path string, stdout func([]byte)) Invocation {
	return Invocation{Hook: "hook.sh", Path: path, Limits: Limits{OpenFiles: 33}, Stdout: stdout, Stderr: func([]byte) {}}
}

// script writes a file that can be executed.
func script(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "hook.sh")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// A process has its limits before its first instruction: what it forks at once has them, even if the parent has ended by then.
func TestLimitsOfOrphans(t *testing.T) {
	needTracing(t)
	path := script(t, "#!/bin/sh\n( (ulimit -n) & )\n")
	e := New(Options{})
	run := func() {
		var stdout []string
		_, err := e.Execute(t.Context(), fewFiles(path, func(line []byte) { stdout = append(stdout, string(line)) }))
		if got := strings.Join(stdout, " "); got != "33" || err != nil {
			t.Errorf("an orphan has the limit %s, want 33; %v", got, err)
		}
	}
	var runs sync.WaitGroup
	for range 16 { // so that forks and the setting of limits compete
		runs.Go(func() {
			for range 8 {
				run()
			}
		})
	}
	runs.Wait()
}

// A process that has been traced at its start is like any other afterwards: it may execute programs, and blocks no signals.
func TestTracingEnds(t *testing.T) {
	needTracing(t)
	path := script(t, "#!/usr/bin/env sh\nexec sh -c 'grep -E \"TracerPid|Sig[BI]\" /proc/self/status; exec sh -c \"ulimit -n\"'\n")
	statusWith := func(l Limits) string {
		var stdout []string
		in := fewFiles(path, func(line []byte) { stdout = append(stdout, string(line)) })
		in.Limits, in.Env = l, []string{"PATH=" + os.Getenv("PATH")}
		if _, err := New(Options{}).Execute(t.Context(), in); err != nil {
			t.Error(err)
		}
		return strings.Join(stdout, " ")
	}
	without := strings.TrimSuffix(statusWith(Limits{}), inherited(t, "n"))
	if got := statusWith(Limits{OpenFiles: 33}); got != without+"33" || !strings.Contains(got, "TracerPid:\t0 ") {
		t.Errorf("%q, without limits %q", got, without)
	}
}

// Where tracing is refused, the limits are set after the start, and the caller learns of it.
func TestTracingRefused(t *testing.T) {
	if !LimitsProcesses {
		t.Skipf("no limits on %s", runtime.GOOS)
	}
	unlimited := inherited(t, "n")
	path := script(t, "#!/bin/sh\nuntil [ $(ulimit -n) != "+unlimited+" ]; do :; done\nulimit -n\n")
	for _, refused := range []error{syscall.EPERM, syscall.EACCES, syscall.ENOSYS} {
		var stdout []string
		var late error
		e := New(Options{Limited: func(err error) { late = err }})
		e.refused = refused
		_, err := e.Execute(t.Context(), fewFiles(path, func(line []byte) { stdout = append(stdout, string(line)) }))
		if got := strings.Join(stdout, " "); got != "33" || err != nil || !errors.Is(late, refused) {
			t.Errorf("%v: the limit is %q, %v, the reason %v", refused, got, err, late)
		}
	}
}

// Errors of a start are the same with and without limits.
func TestStartErrorsWithLimits(t *testing.T) {
	unreadable := script(t, "#!/bin/sh\n")
	if err := os.Chmod(unreadable, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"missing file": filepath.Join(t.TempDir(), "none"), "mode": unreadable, "no program": script(t, "true\n"), "directory": t.TempDir(),
		"missing interpreter": script(t, "#!/none\n"), "interpreter of DOS": script(t, "#!/bin/sh\r\n"), "empty file": script(t, ""),
	} {
		in := fewFiles(path, func([]byte) {})
		e := New(Options{Limited: func(late error) { t.Errorf("%s: limited: %v", name, late) }})
		_, with := e.Execute(t.Context(), in)
		in.Limits = Limits{}
		_, without := e.Execute(t.Context(), in)
		var start *StartError
		if !errors.As(with, &start) || with.Error() != without.Error() {
			t.Errorf("%s: %v, without limits %v", name, with, without)
		}
	}
}
