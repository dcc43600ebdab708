package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hookFile writes an executable file.
func hookFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hook.sh")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// outcome is what a run printed and how it ended.
type outcome struct {
	stdout, stderr []string
	result         Result
	err            error
}

// execute runs a shell script. change may be nil.
func execute(t *testing.T, opts Options, script string, change func(*Invocation)) outcome {
	t.Helper()
	return executeContext(t.Context(), opts, Invocation{Path: hookFile(t, "#!/bin/sh\n"+script)}, change)
}

func executeContext(ctx context.Context, opts Options, in Invocation, change func(*Invocation)) (o outcome) {
	in.Hook = "hook.sh"
	in.Env = []string{"PATH=" + os.Getenv("PATH")}
	in.Stdout = func(line []byte) { o.stdout = append(o.stdout, string(line)) }
	in.Stderr = func(line []byte) { o.stderr = append(o.stderr, string(line)) }
	if change != nil {
		change(&in)
	}
	o.result, o.err = New(opts).Execute(ctx, in)
	return o
}

func lines(l []string) string { return strings.Join(l, "|") }

func TestInvocation(t *testing.T) {
	dir := t.TempDir()
	got := execute(t, Options{}, `echo "$# $1 $2"; pwd; echo "$NAME"; cut -d" " -f5 /proc/$$/stat; echo $$`, func(in *Invocation) {
		in.Args = []string{"--config", "two words"}
		in.Dir = dir
		in.Env = append(in.Env, "NAME=a value")
	})
	if got.err != nil || len(got.stdout) != 5 {
		t.Fatalf("stdout %q, error %v", got.stdout, got.err)
	}
	if real, _ := filepath.EvalSymlinks(dir); lines(got.stdout[:3]) != "2 --config two words|"+real+"|a value" {
		t.Errorf("got %q", got.stdout)
	}
	if got.stdout[3] != got.stdout[4] {
		t.Errorf("the group is %s, the process %s", got.stdout[3], got.stdout[4])
	}
}

func TestExitErrors(t *testing.T) {
	for _, test := range []struct{ name, script, status, text string }{
		{"another signal", "kill -SEGV $$", "signal: segmentation fault", "hook.sh FAILED: it printed nothing: signal: segmentation fault"},
		{"stderr says more", "echo cannot do it >&2; echo '  at all' >&2; exit 1", "exit status 1", "hook.sh FAILED: at all"},
		{"blank stderr says nothing", "echo ' ' >&2; exit 1", "exit status 1", "hook.sh FAILED: it printed nothing: exit status 1" + aTest},
		{"stdout is no reason", "echo out; exit 1", "exit status 1", "hook.sh FAILED: it printed nothing: exit status 1" + aTest},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := execute(t, Options{}, "ulimit -c 0\n"+test.script, nil)
			var exit *ExitError
			if !errors.As(got.err, &exit) {
				t.Fatalf("got %v", got.err)
			}
			if exit.Status != test.status || exit.Error() != test.text {
				t.Errorf("status %q, text %q", exit.Status, exit.Error())
			}
		})
	}
}

func TestStartErrors(t *testing.T) {
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, test := range []struct {
		name, path string
		is         error
		text       string
	}{
		{"no file", "no/such/hook.sh", os.ErrNotExist,
			"cmd start: the file no/such/hook.sh does not exist: it was removed or renamed after the hook was loaded"},
		{"no interpreter", write("a", "#! /no/such/python3 -u\n", 0o755), os.ErrNotExist,
			`the interpreter "/no/such/python3" of `},
		{"not executable", write("b", "#!/bin/sh\n", 0o644), os.ErrPermission, "the operator's user is not allowed to execute "},
		{"a directory", t.TempDir(), os.ErrPermission, "the operator's user is not allowed to execute "},
		{"no first line", write("c", "echo hello\n", 0o755), syscall.ENOEXEC, "begin it with a line such as #!/usr/bin/env bash"},
		{"empty file", write("d", "", 0o755), syscall.ENOEXEC, "begin it with a line such as #!/usr/bin/env bash"},
		{"Windows line ends", write("e", "#!/bin/sh\r\necho\r\n", 0o755), os.ErrNotExist, " has Windows line ends: convert it"},
		{"odd white space", write("f", "#!\f\n", 0o755), os.ErrNotExist, `the interpreter "\f" of `},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := executeContext(t.Context(), Options{}, Invocation{Path: test.path}, nil)
			var start *StartError
			if !errors.As(got.err, &start) || !errors.Is(got.err, test.is) {
				t.Fatalf("got %v", got.err)
			}
			if text := got.err.Error(); !strings.HasPrefix(text, "hook.sh FAILED: cmd start: ") || !strings.Contains(text, test.text) {
				t.Errorf("got %q, want it to have %q", text, test.text)
			}
		})
	}
}

func TestMissingDirectory(t *testing.T) {
	got := execute(t, Options{}, "true", func(in *Invocation) { in.Dir = "/no/such/directory" })
	if want := "hook.sh FAILED: cmd start: its working directory /no/such/directory does not exist"; got.err == nil ||
		!strings.HasPrefix(got.err.Error(), want) {
		t.Errorf("got %v", got.err)
	}
}

// A file that is still open for writing somewhere passes by itself.
func TestFileWrittenAMomentAgo(t *testing.T) {
	path := hookFile(t, "#!/bin/sh\necho ran\n")
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	closing := time.AfterFunc(3*time.Millisecond, func() { f.Close() })
	defer closing.Stop()
	got := executeContext(t.Context(), Options{}, Invocation{Path: path}, nil)
	if got.err != nil || lines(got.stdout) != "ran" {
		t.Errorf("stdout %q, error %v", got.stdout, got.err)
	}
}

func TestNotStartedWhenItIsTooLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := executeContext(ctx, Options{}, Invocation{Path: hookFile(t, "#!/bin/sh\necho ran\n")}, nil)
	if !errors.Is(got.err, context.Canceled) || len(got.stdout) > 0 {
		t.Errorf("stdout %q, error %v", got.stdout, got.err)
	}
}

func TestUsage(t *testing.T) {
	got := execute(t, Options{}, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.05", nil)
	u := got.result.Usage
	if got.err != nil || u.User+u.System < time.Millisecond || u.Wall < 50*time.Millisecond {
		t.Errorf("used %+v, error %v", u, got.err)
	}
	if u.MaxRSS < 100<<10 || u.MaxRSS > 1<<30 {
		t.Errorf("a shell has used %d bytes", u.MaxRSS)
	}
}

// Ends of runs. In the scripts below a child prints its number, and the test sees whether it lives on.

const withChild = "sleep 60 & echo $!\n"

func childOf(t *testing.T, got outcome) int {
	t.Helper()
	if len(got.stdout) == 0 {
		t.Fatalf("the script printed nothing; error %v", got.err)
	}
	pid, err := strconv.Atoi(got.stdout[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if alive(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return pid
}

// alive reports whether a process runs. One that has ended and was not waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// gone waits until a process that was killed has ended.
func gone(pid int) bool {
	for late := time.Now().Add(time.Minute); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			return false
		}
	}
	return true
}

// limited runs a script that prints so many lines and then goes on, with a time limit that comes after them: the limit
// counts from the start of the process, so on a busy machine it takes a longer one.
func limited(t *testing.T, opts Options, script string, lines int) (got outcome, limit time.Duration) {
	t.Helper()
	for limit = 50 * time.Millisecond; limit < time.Minute; limit *= 3 {
		got = execute(t, opts, script, func(in *Invocation) { in.Timeout = limit })
		if len(got.stdout) >= lines {
			return got, limit
		}
	}
	t.Fatalf("the script printed %q only; error %v", got.stdout, got.err)
	return got, limit
}

func TestTimeoutEndsTheGroup(t *testing.T) {
	got, limit := limited(t, Options{}, withChild+"wait", 1)
	var timeout *TimeoutError
	if !errors.As(got.err, &timeout) || timeout.Limit != limit {
		t.Fatalf("got %v", got.err)
	}
	if !strings.HasPrefix(got.err.Error(),
		fmt.Sprintf("hook.sh FAILED: still running after %s, killed: raise settings.executionTimeout", limit)) {
		t.Errorf("got %q", got.err)
	}
	if got.result.HeldOpen || !gone(childOf(t, got)) {
		t.Errorf("the child lives on")
	}
}

// SIGTERM comes first: the hook cleans up and prints a line. Remaining children are killed.
func TestSIGTERMComesFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	script := `trap 'echo cleaned up; exit 7' TERM
(trap '' TERM; while :; do sleep 1; done) & echo $!
echo ready; while :; do sleep 0.01; done`
	o := executeContext(ctx, Options{TermDelay: time.Minute}, Invocation{Path: hookFile(t, "#!/bin/sh\n"+script)}, func(in *Invocation) {
		keep := in.Stdout
		in.Stdout = func(line []byte) {
			if keep(line); string(line) == "ready" {
				cancel()
			}
		}
	})
	var exit *ExitError
	if !errors.As(o.err, &exit) || exit.Status != "exit status 7" {
		t.Errorf("got %v", o.err)
	}
	if len(o.stdout) != 3 || o.stdout[2] != "cleaned up" {
		t.Errorf("stdout %q", o.stdout)
	}
	if !gone(childOf(t, o)) {
		t.Error("the stubborn child lives on")
	}
}

// A hook that was stopped at its time limit has failed, even with exit status 0.
// TestEndBeforeTheTimeout: a process that ended in time has not been ended, even if the operator notices its end later: its machine was
// suspended, or a slow reader of its output comes first.
func TestEndBeforeTheTimeout(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("a late look does not see it there")
	}
	for timeout := 100 * time.Millisecond; ; timeout *= 2 {
		began, inTime := time.Now(), false
		o := execute(t, Options{}, "echo $$", func(in *Invocation) {
			in.Timeout = timeout
			in.Stdout = func(line []byte) {
				pid, err := strconv.Atoi(string(line))
				if err != nil {
					t.Fatal(err)
				}
				if err := waitid(pid); err != nil {
					t.Error(err)
				}
				inTime = time.Since(began) < timeout/2
				<-time.After(timeout) // counted from a time after the start of the run
			}
		})
		if !inTime {
			continue // the machine is slow
		}
		if o.err != nil {
			t.Error(o.err)
		}
		return
	}
}

// A run that is stopped ends as by a time limit: its status does not count.
func TestStopCountsWhateverTheStatus(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	pid := 0
	got := executeContext(ctx, Options{TermDelay: time.Minute}, Invocation{Path: hookFile(t, `#!/bin/sh
trap 'exit 0' TERM
echo $$; while :; do sleep 0.01; done`)}, func(in *Invocation) {
		in.Started = func(p int) { pid = p }
		in.Stdout = func(line []byte) {
			if string(line) != strconv.Itoa(pid) {
				t.Errorf("the pid is %s, reported %d", line, pid)
			}
			stop(&StopError{in.Hook})
		}
	})
	if !errors.As(got.err, new(*StopError)) {
		t.Errorf("got %v", got.err)
	}
}

// stubborn ignores SIGTERM, and so do its children.
const stubborn = "trap '' TERM\n" + withChild + "echo ready; wait"

func TestSIGKILLComesAfterTheDelay(t *testing.T) {
	const delay = 50 * time.Millisecond
	got, limit := limited(t, Options{TermDelay: delay}, stubborn, 2)
	var timeout *TimeoutError
	if !errors.As(got.err, &timeout) {
		t.Errorf("got %v", got.err)
	}
	if wall := got.result.Usage.Wall; wall < limit+delay || wall > limit+30*time.Second {
		t.Errorf("ended after %s", wall)
	}
	if !gone(childOf(t, got)) {
		t.Error("the child lives on")
	}
}

func TestKillDoesNotWaitForTheDelay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	kill, now := context.WithCancel(t.Context())
	path := hookFile(t, "#!/bin/sh\n"+stubborn)
	got := executeContext(ctx, Options{TermDelay: time.Hour, Kill: kill}, Invocation{Path: path}, func(in *Invocation) {
		keep := in.Stdout
		in.Stdout = func(line []byte) {
			if keep(line); string(line) == "ready" {
				cancel()
				now()
			}
		}
	})
	var exit *ExitError
	if !errors.As(got.err, &exit) || exit.Status != "signal: killed" {
		t.Errorf("got %v", got.err)
	}
	if !gone(childOf(t, got)) {
		t.Error("the child lives on")
	}
}

// The run does not wait for a child that keeps running.
func TestOutputHeldOpen(t *testing.T) {
	got := execute(t, Options{DrainDelay: 500 * time.Millisecond}, withChild+"echo done", nil)
	if got.err != nil || !got.result.HeldOpen || len(got.stdout) != 2 || got.stdout[1] != "done" {
		t.Errorf("stdout %q, result %+v, error %v", got.stdout, got.result, got.err)
	}
	if !alive(childOf(t, got)) {
		t.Error("the child was ended")
	}
}

// The error text is complete although a child continues to write.
func TestStderrHeldOpenByAWriter(t *testing.T) {
	script := "(while echo more >&2; do :; done) & echo reason >&2; exit 1"
	got := execute(t, Options{DrainDelay: 500 * time.Millisecond}, script, nil)
	var exit *ExitError
	if !errors.As(got.err, &exit) || !strings.Contains(exit.Stderr, "reason") && !strings.HasPrefix(exit.Stderr, "… ") {
		t.Errorf("got %.200v", got.err)
	}
	if !got.result.HeldOpen {
		t.Error("the open output was not reported")
	}
}

func TestOutputClosedAndSilentChild(t *testing.T) {
	got := execute(t, Options{DrainDelay: time.Hour}, "sleep 3600 >&- 2>&- & echo $!", nil)
	childOf(t, got)
	if got.err != nil || got.result.HeldOpen {
		t.Errorf("result %+v, error %v", got.result, got.err)
	}
}
