// Package process runs a hook file as a process.
//
// Callers may rely on this:
//   - The process leads a process group of its own. To end a run early, the whole group gets SIGTERM, and SIGKILL after a
//     delay or as soon as Options.Kill ends.
//   - Lines of output are delivered complete, up to 16 MiB, in order per stream, as long as the bound of the output allows.
//   - Execute returns when the process has ended and its output has been read. If a background process keeps the output open,
//     Execute reads on for a short time only, and does not signal that process.
//   - No goroutine that Execute started outlives it.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Options of an Executor. Zero values get defaults.
type Options struct {
	// TermDelay is the time between SIGTERM and SIGKILL; 0 means 5 s.
	TermDelay time.Duration
	// DrainDelay limits the time for which output that background processes keep open is read; 0 means 1 s.
	DrainDelay time.Duration
	// Kill ends the delay after SIGTERM; nil means never.
	Kill context.Context
}

// Executor runs processes.
type Executor struct {
	opts Options
	// endOf is replaced in tests.
	endOf func(pid int) (*signal, error)
}

// New returns an Executor.
func New(opts Options) *Executor {
	opts.TermDelay = cmp.Or(opts.TermDelay, 5*time.Second)
	opts.DrainDelay = cmp.Or(opts.DrainDelay, time.Second)
	if opts.Kill == nil {
		opts.Kill = context.Background()
	}
	return &Executor{opts: opts, endOf: endOf}
}

// Invocation is a program to run.
type Invocation struct {
	// Hook is the name for error texts, Path the file.
	Hook, Path string
	Args       []string
	Dir        string
	// Env is the environment that all runs of the hook share, Vars are the variables of this one.
	Env, Vars []string
	// Worker is about the worker that may serve the run. An Executor ignores it.
	Worker *Worker
	// Stdout and Stderr receive lines without their ends, on the goroutine that called Execute.
	Stdout, Stderr func(line []byte)
	// Timeout ends the run; 0 means never.
	Timeout time.Duration
	// Started, if set, is called with the pid of the process, or of the worker that serves the run.
	Started func(pid int)
	// Output bounds the bytes of lines that are delivered; 0 means all. The rest is read slowly and dropped. Dropped, if set, is called with
	// the first line of it.
	Output  int64
	Dropped func()
}

// Result describes a process that has ended.
type Result struct {
	Usage Usage
	// HeldOpen reports that a background process kept the output open.
	HeldOpen bool
	// Served is the worker that has served the run.
	Served Served
}

// Usage is the usage of a process and the children that it waited for.
type Usage struct {
	User, System time.Duration
	// MaxRSS is the largest resident set of a single process, in bytes.
	MaxRSS int64
	Wall   time.Duration
}

// Execute runs a process until its end. The error is an *ExitError, a *TimeoutError, a *StopError, a *StartError, or one of the
// operating system.
func (e *Executor) Execute(ctx context.Context, in Invocation) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("%s FAILED: not started: %w", in.Hook, err)
	}
	started := time.Now() // before the time limit begins, so that no run appears shorter than its limit
	ctx, cancel := in.limited(ctx)
	defer cancel()
	tail, bound := &tail{}, boundOf(in)
	out := []*stream{newStream(in.Stdout, nil, bound), newStream(in.Stderr, tail, bound)}
	defer closeAll(out)
	c, err := e.start(ctx, in, out)
	if err != nil {
		return Result{}, err
	}
	in.started(c.pid)
	for ended := [3]bool{}; !ended[0] && err == nil; {
		ended, err = poll(-1, out, c.end.fd)
	}
	if err != nil {
		c.kill() // without a reader it would block on a full pipe
	}
	err = errors.Join(err, c.reap())
	result := Result{HeldOpen: readOn(out, c.ended.Add(e.opts.DrainDelay)), Usage: c.usage(started)}
	if err != nil {
		return result, fmt.Errorf("%s FAILED: %w", in.Hook, err)
	}
	if c.stopped {
		if cause := endOfRun(ctx); cause != nil {
			return result, cause // whatever its status: its work was not complete
		}
	}
	if c.status != 0 { // it is 0 after the exit status 0 only
		return result, &ExitError{Hook: in.Hook, File: in.file(), Status: c.String(), Stderr: tail.text()}
	}
	return result, nil
}

// file is the path of the hook's file, which an interpreter may run.
func (in *Invocation) file() string {
	for _, path := range in.Args {
		if strings.HasSuffix(path, "/"+in.Hook) {
			return path
		}
	}
	return in.Path
}

// limited returns a context that ends at the time limit of a run.
func (in *Invocation) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if in.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, in.Timeout, &TimeoutError{in.Hook, in.Timeout})
}

func (in *Invocation) started(pid int) {
	if in.Started != nil {
		in.Started(pid)
	}
}

// endOfRun returns the *TimeoutError or the *StopError that has ended a context; nil if neither has.
func endOfRun(ctx context.Context) error {
	cause, timeout, stop := context.Cause(ctx), (*TimeoutError)(nil), (*StopError)(nil)
	if errors.As(cause, &timeout) || errors.As(cause, &stop) {
		return cause
	}
	return nil
}

// fork starts the process with files from descriptor 1. It retries ETXTBSY: a file that has just been written may still be open for writing
// in a child that another run is forking.
func (e *Executor) fork(in Invocation, files []uintptr) (pid int, err error) {
	stdin, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("%s FAILED: open %s: %w", in.Hook, os.DevNull, err)
	}
	defer func() { _ = syscall.Close(stdin) }()
	attr := &syscall.ProcAttr{
		Dir: in.Dir, Env: slices.Concat(in.Env, in.Vars), Files: append([]uintptr{uintptr(stdin)}, files...),
		Sys: &syscall.SysProcAttr{Setpgid: true},
	}
	argv := append([]string{in.Path}, in.Args...)
	for try := 0; ; try++ {
		pid, _, err := syscall.StartProcess(in.Path, argv, attr)
		switch {
		case err == nil:
			preferForOOM(pid)
			return pid, nil
		case !errors.Is(err, syscall.ETXTBSY) || try == 5:
			return 0, &StartError{in.Hook, in.Path, in.Dir, err}
		}
		time.Sleep(time.Millisecond << try)
	}
}

// endEarly ends a process group and reports true, unless the process has already ended.
func (e *Executor) endEarly(group int, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return false
	default:
	}
	if hasEnded(group) { // and its end is noticed later, as after a pause of the machine: its status counts
		return false
	}
	_ = syscall.Kill(-group, syscall.SIGTERM)
	delay := time.NewTimer(e.opts.TermDelay)
	defer delay.Stop()
	select {
	case <-ended: // SIGKILL for the children that are left
	case <-delay.C:
	case <-e.opts.Kill.Done():
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	return true
}

// ExitError reports that the process ran and failed.
type ExitError struct {
	// File is the path of the hook's file.
	Hook, File string
	// Status is "exit status N" or "signal: …".
	Status string
	// Stderr is the output of the process there, its end if it is long.
	Stderr string
	// Known is the report of the library of the hook; zero without one.
	Known Failure
}

// Error has the cause: the rest is in the output of the run.
func (e *ExitError) Error() string { return e.Hook + " FAILED: " + e.Cause("") }

// Hint is the fix for the few failures that many hooks meet, or empty.
func (e *ExitError) Hint() string {
	if strings.Contains(e.Stderr, "/shell_lib.sh: No such file or directory") {
		return `: write source "${SHELL_LIB:-/shell_lib.sh}", which finds the library everywhere`
	}
	if e.Status == "exit status 137" || e.Status == "signal: killed" {
		return " (SIGKILL: perhaps the memory was not enough)"
	}
	return ""
}

// TimeoutError reports that a run exceeded its time limit.
type TimeoutError struct {
	Hook  string
	Limit time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s FAILED: still running after %s, killed: raise settings.executionTimeout of the hook or --hook-timeout, "+
		"or make the hook faster", e.Hook, e.Limit)
}

// StopError reports that a person has ended a run. As the cause of a context, it ends the run as a time limit does.
type StopError struct{ Hook string }

func (e *StopError) Error() string { return e.Hook + " FAILED: ended by runs stop" }

// StartError reports that the process could not be started.
type StartError struct {
	Hook, Path, Dir string
	Err             error
}

func (e *StartError) Unwrap() error { return e.Err }

func (e *StartError) Error() string {
	return fmt.Sprintf("%s FAILED: cmd start: %s", e.Hook, e.Reason())
}

// Reason is the cause and the fix, without the hook's name. The kernel returns the same error for a missing file, a missing
// interpreter and a missing directory.
func (e *StartError) Reason() string {
	interpreter := interpreterOf(e.Path)
	switch missing := errors.Is(e.Err, os.ErrNotExist); {
	case missing && !exists(e.Dir):
		return fmt.Sprintf("its working directory %s does not exist: restore it, or restart the operator", e.Dir)
	case missing && !exists(e.Path):
		return fmt.Sprintf("the file %s does not exist: it was removed or renamed after the hook was loaded; restore it, or restart the operator",
			e.Path)
	case strings.HasSuffix(interpreter, "\r"):
		return fmt.Sprintf("the file %s has Windows line ends: convert it, for instance with sed -i 's/\\r$//'", e.Path)
	case missing && interpreter != "" && !exists(interpreter):
		return fmt.Sprintf("the interpreter %q of %s does not exist: install it, or change the first line of the file", interpreter, e.Path)
	case errors.Is(e.Err, syscall.ENOEXEC) && strings.HasPrefix(headOf(e.Path), "\xef\xbb\xbf"):
		return fmt.Sprintf(`the file %s begins with a byte order mark: remove it, for instance with sed -i '1s/^\xEF\xBB\xBF//'`, e.Path)
	case errors.Is(e.Err, syscall.ENOEXEC):
		return fmt.Sprintf("%s is neither a program for this machine nor a script: begin it with a line such as #!/usr/bin/env bash", e.Path)
	case errors.Is(e.Err, os.ErrPermission):
		return fmt.Sprintf("the operator's user is not allowed to execute %s: check the modes of the file and its directories, "+
			"and the noexec option of the file system", e.Path)
	}
	return fmt.Sprintf("cannot execute %s: %v", e.Path, e.Err)
}

// interpreterOf returns the path that follows #! in the first line of a file, with the line end if that is \r.
func interpreterOf(path string) string {
	line, isScript := strings.CutPrefix(headOf(path), "#!")
	if !isScript {
		return ""
	}
	line, _, _ = strings.Cut(line, "\n")
	line = strings.TrimLeft(line, " \t")
	if end := strings.IndexAny(line, " \t"); end >= 0 {
		line = line[:end]
	}
	return line
}

// exists reports whether there is something at a path; none is the current directory.
func exists(path string) bool {
	_, err := os.Stat(path)
	return path == "" || err == nil
}

func headOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	return string(head[:n])
}
