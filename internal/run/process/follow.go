package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a process that has been started. It stays a zombie until reap, so that the kernel does not reuse its pid.
type child struct {
	e   *Executor
	pid int
	end *signal
	// forget keeps the end of the context from ending the process; early is closed when that has been done.
	forget func() bool
	// over is closed when the process has ended.
	over, early chan struct{}

	// stopped reports that endEarly ended it. It and what follows are set by reap.
	stopped bool
	status  syscall.WaitStatus
	used    syscall.Rusage
	ended   time.Time
}

// start starts a process with streams for its output. When ctx ends it ends the process early.
func (e *Executor) start(ctx context.Context, in Invocation, out []*stream, more ...uintptr) (*child, error) {
	var files []uintptr
	for _, s := range out {
		if err := s.open(); err != nil {
			return nil, fmt.Errorf("%s FAILED: cannot make a pipe: %w", in.Hook, err)
		}
		defer closeEnd(&s.write)
		files = append(files, uintptr(s.write))
	}
	pid, err := e.fork(in, append(files, more...))
	if err != nil {
		return nil, err
	}
	c := &child{e: e, pid: pid, forget: func() bool { return true }, over: make(chan struct{}), early: make(chan struct{})}
	if c.end, err = e.endOf(pid); err != nil {
		c.kill()
		return nil, fmt.Errorf("%s FAILED: cannot wait for the process: %w", in.Hook, errors.Join(err, c.reap()))
	}
	c.forget = context.AfterFunc(ctx, func() {
		defer close(c.early)
		c.stopped = e.endEarly(pid, c.over)
	})
	return c, nil
}

// kill ends the process group.
func (c *child) kill() { _ = syscall.Kill(-c.pid, syscall.SIGKILL) }

// reap takes the status of a process that has ended.
func (c *child) reap() error {
	c.ended = time.Now()
	close(c.over)
	if !c.forget() {
		<-c.early
	}
	if c.end != nil {
		defer c.end.close()
	}
	for {
		_, err := syscall.Wait4(c.pid, &c.status, 0, &c.used)
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("wait4", err)
		}
	}
}

// String returns how the process ended.
func (c *child) String() string {
	if c.status.Signaled() {
		return "signal: " + c.status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", c.status.ExitStatus())
}

func (c *child) usage(started time.Time) Usage {
	return Usage{
		User: time.Duration(c.used.Utime.Nano()), System: time.Duration(c.used.Stime.Nano()),
		MaxRSS: c.used.Maxrss * rssUnit, Wall: c.ended.Sub(started),
	}
}

// readOn delivers what is left in streams until late. It reports whether another process still has one open.
func readOn(streams []*stream, late time.Time) (heldOpen bool) {
	for _, s := range streams {
		closeEnd(&s.write)
	}
	for {
		open := false
		for _, s := range streams {
			open = open || s.read >= 0
		}
		left := time.Until(late)
		if !open || left <= 0 {
			return open
		}
		if _, err := poll(left, streams); err != nil {
			return open
		}
	}
}

// poll waits until a stream or a descriptor is readable, reads such streams once, and reports which descriptors are. It ignores what is
// closed, which is -1. A negative limit means none.
// A single thread polls for output and end: waking another one for each line costs more than the line.
func poll(limit time.Duration, streams []*stream, fds ...int) (ready [3]bool, err error) {
	polled := make([]unix.PollFd, 0, 8)
	for _, fd := range fds {
		polled = append(polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for _, s := range streams {
		polled = append(polled, unix.PollFd{Fd: int32(s.read), Events: unix.POLLIN})
	}
	timeout := -1
	if limit >= 0 {
		timeout = int(limit/time.Millisecond) + 1
	}
	switch _, err := unix.Poll(polled, timeout); {
	case errors.Is(err, unix.EINTR):
		return ready, nil
	case err != nil:
		return ready, os.NewSyscallError("poll", err)
	}
	for i, s := range streams {
		s.ready(polled[len(fds)+i].Revents)
	}
	for i := range fds {
		ready[i] = polled[i].Revents != 0
	}
	return ready, nil
}

// signal is a file descriptor that becomes readable with an event.
type signal struct {
	fd      int
	waiting sync.WaitGroup
}

func (s *signal) close() {
	_ = unix.Close(s.fd)
	s.waiting.Wait()
}

// signalEnd signals the end of a child without a pidfd.
func signalEnd(pid int) (*signal, error) {
	r, w, err := pipe()
	if err != nil {
		return nil, err
	}
	s := &signal{fd: r}
	s.waiting.Go(func() {
		_ = waitid(pid) // reap returns its error
		_ = unix.Close(w)
	})
	return s, nil
}
