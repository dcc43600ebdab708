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

// run is a process that has been started.
type run struct {
	pid    int
	status syscall.WaitStatus
	used   syscall.Rusage
	// ended is when it ended; zero before.
	ended time.Time
	// heldOpen reports that a background process kept the output open for too long.
	heldOpen bool
	// stopped reports that endEarly ended it.
	stopped bool
	err     error
}

// follow delivers the output of a process until it has ended and all of it is read. When ctx ends it ends the process.
// A single thread polls for output and end: waking another one for each line costs more than the line.
func (e *Executor) follow(ctx context.Context, pid int, streams ...*stream) *run {
	r := &run{pid: pid}
	ended, early := make(chan struct{}), make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(early)
		r.stopped = e.endEarly(pid, ended)
	})
	r.err = e.readUntilEnd(r, streams)
	if r.err != nil {
		// Without a reader the process would block on a full pipe.
		for _, s := range streams {
			s.closeRead()
		}
		r.err = errors.Join(r.err, waitid(pid))
	}
	r.ended = time.Now()
	// The process stays a zombie until endEarly has returned, so that the kernel does not reuse its pid.
	close(ended)
	if !forget() {
		<-early
	}
	r.err = errors.Join(r.err, r.takeStatus())
	r.heldOpen = readOn(streams, r.ended.Add(e.opts.DrainDelay))
	return r
}

// readUntilEnd delivers output until the process ends.
func (e *Executor) readUntilEnd(r *run, streams []*stream) error {
	end, err := e.endOf(r.pid)
	if err != nil {
		return fmt.Errorf("cannot wait for the process: %w", err)
	}
	defer end.close()
	for {
		over, err := readOnce(streams, end.fd, -1)
		if over || err != nil {
			return err
		}
	}
}

// readOn delivers what is left in the pipes until late. It reports whether another process still has one open.
func readOn(streams []*stream, late time.Time) (heldOpen bool) {
	for {
		open := false
		for _, s := range streams {
			open = open || s.read >= 0
		}
		left := time.Until(late)
		if !open || left <= 0 {
			return open
		}
		if _, err := readOnce(streams, -1, left); err != nil {
			return open
		}
	}
}

// readOnce waits until a stream is readable or the process has ended, and reads once. A negative limit means none.
func readOnce(streams []*stream, end int, limit time.Duration) (ended bool, err error) {
	// poll ignores closed streams, which are -1.
	polled := [3]unix.PollFd{{Fd: int32(end), Events: unix.POLLIN}}
	for i, s := range streams {
		polled[1+i] = unix.PollFd{Fd: int32(s.read), Events: unix.POLLIN}
	}
	timeout := -1
	if limit >= 0 {
		timeout = int(limit/time.Millisecond) + 1
	}
	switch _, err := unix.Poll(polled[:1+len(streams)], timeout); {
	case errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, os.NewSyscallError("poll", err)
	}
	for i, s := range streams {
		s.ready(polled[1+i].Revents)
	}
	return polled[0].Revents != 0, nil
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
		_ = waitid(pid) // takeStatus returns its error
		_ = unix.Close(w)
	})
	return s, nil
}

func (r *run) takeStatus() error {
	for {
		_, err := syscall.Wait4(r.pid, &r.status, 0, &r.used)
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("wait4", err)
		}
	}
}

func (r *run) success() bool { return r.status.Exited() && r.status.ExitStatus() == 0 }

// String returns how the process ended.
func (r *run) String() string {
	if r.status.Signaled() {
		return "signal: " + r.status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", r.status.ExitStatus())
}

func (r *run) usage(started time.Time) Usage {
	return Usage{
		User: time.Duration(r.used.Utime.Nano()), System: time.Duration(r.used.Stime.Nano()),
		MaxRSS: r.used.Maxrss * rssUnit, Wall: r.ended.Sub(started),
	}
}
