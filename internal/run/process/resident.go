package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Resident is a process that serves runs one after the other. Its promises:
//   - Run follows the process until it has ended. What it prints outside of runs goes to the functions of its Invocation.
//   - A run that has been sent ends with the answer, or fails. When it fails, all processes of the worker's group have ended.
//   - A process that is to end gets SIGTERM after Options.TermDelay, and SIGKILL after another one, or when Options.Kill ends.
//
// One goroutine at a time polls: the one of Run, or during a run the one of Serve. It owns the fields without another owner.
type Resident struct {
	*child
	opts ResidentOptions
	// socket is our end; -1 when it is closed.
	socket int
	// out are the outputs of the process, which last from run to run. tail is the end of stderr outside of runs.
	out  []*stream
	tail *tail
	talk talk
	run  *served
	// gone: the process has ended. failure is why, when that is known.
	gone    bool
	failure *WorkerError
	// before is the worker's usage at the end of the last run.
	before Usage
	late   *time.Timer

	// ctx ends when the process is to get signals. Its cause is a *WorkerError, unless that was intended.
	ctx  context.Context
	stop context.CancelCauseFunc
	// wake makes the goroutine of Run notice leave, wanted, and the end of Options.Kill: by woken, the other end.
	wake, wakeRead *os.File
	woken          int
	leave, wanted  atomic.Bool
	// turn lets Serve poll, and back returns that to Run. over is closed when runs are no longer accepted.
	turn, back, over chan struct{}
}

// served is the run in progress.
type served struct {
	// forget keeps the end of the run's context from ending the worker.
	forget   func() bool
	answered bool
	status   int
}

// ResidentOptions name the program to start.
type ResidentOptions struct {
	// Invocation has Hook, Path, Args, Dir and Env. Its Stdout and Stderr receive what is printed outside of runs.
	Invocation
	// ReadyTimeout limits the time until the worker is ready.
	ReadyTimeout time.Duration
	// Ready is called when the worker is ready, Ended when it has ended: with nil after Leave. They must not block.
	Ready func()
	Ended func(err error)
}

// StartResident starts a worker. Run has to be called.
func (e *Executor) StartResident(o ResidentOptions) (*Resident, error) {
	w := &Resident{opts: o, turn: make(chan struct{}), back: make(chan struct{}), over: make(chan struct{})}
	w.ctx, w.stop = context.WithCancelCause(context.Background())
	theirs, err := w.open()
	defer closeEnd(&theirs)
	if err != nil {
		w.closeFiles()
		return nil, fmt.Errorf("%s FAILED: cannot start a worker: %w", o.Hook, err)
	}
	w.out = w.outside()
	o.Vars = []string{WorkerVariable + "=3"}
	w.child, err = e.start(w.ctx, o.Invocation, w.out, uintptr(theirs))
	if err != nil {
		w.closeFiles()
		return nil, err
	}
	w.late = time.AfterFunc(o.ReadyTimeout, func() {
		w.stop(&WorkerError{Hook: o.Hook, Problem: fmt.Sprintf("its worker was not ready after %s: print nothing on the socket but the line "+
			"\"ready\" after the preparation, or raise --config-timeout", o.ReadyTimeout)})
	})
	return w, nil
}

// open makes the pipe and the sockets, and returns the end of the worker. Ours has room for the variables of a run.
func (w *Resident) open() (theirs int, err error) {
	w.socket = -1
	if w.wakeRead, w.wake, err = os.Pipe(); err != nil {
		return -1, err
	}
	w.woken = int(w.wakeRead.Fd())
	if w.socket, theirs, err = socketpair(); err != nil {
		return -1, err
	}
	return theirs, errors.Join(unix.SetNonblock(w.socket, true), unix.SetsockoptInt(w.socket, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*maxMessage))
}

// outside returns closed streams that deliver what is printed outside of runs.
func (w *Resident) outside() []*stream {
	bound := boundOf(w.opts.Invocation)
	w.tail = &tail{}
	return []*stream{newStream(w.opts.Stdout, nil, bound), newStream(w.opts.Stderr, w.tail, bound)}
}

func (w *Resident) closeFiles() {
	closeAll(w.out)
	closeEnd(&w.socket)
	_, _ = w.wakeRead.Close(), w.wake.Close()
}

// Serve lets the worker serve a run, and returns as Execute does. The error is ErrWorkerGone if the run has not been sent.
func (w *Resident) Serve(ctx context.Context, in Invocation) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("%s FAILED: not started: %w", in.Hook, err)
	}
	started := time.Now()
	ctx, cancel := in.limited(ctx)
	defer cancel()
	text, err := message(in.Worker.Run, in.Vars, in.Worker)
	if err != nil {
		return Result{}, fmt.Errorf("%s FAILED: %w", in.Hook, err)
	}
	tail, bound := &tail{}, boundOf(in)
	stdout, stderr := newStream(in.Stdout, nil, bound), newStream(in.Stderr, tail, bound)
	out, paths := []*stream{stdout, stderr}, []string{in.Worker.Stdout, in.Worker.Stderr}
	defer closeAll(out)
	for i, s := range out {
		defer os.Remove(paths[i])
		if err := s.openNamed(paths[i]); err != nil {
			return Result{}, fmt.Errorf("%s FAILED: cannot make a named pipe: %w: is the directory of --tmp-dir or --run-dir full or not writable?",
				in.Hook, err)
		}
	}
	w.wanted.Store(true)
	w.wakeUp()
	select {
	case <-w.turn:
		defer func() { w.back <- struct{}{} }()
	case <-w.over:
		return Result{}, ErrWorkerGone
	}
	result, err := w.serve(ctx, in, text, out)
	result.Usage.Wall = time.Since(started)
	result.HeldOpen = readOn(out, time.Now().Add(w.e.opts.DrainDelay))
	stdout.lines.end()
	stderr.lines.end()
	var exit *ExitError
	var broken *WorkerError
	if errors.As(err, &exit) {
		exit.Stderr = tail.text()
	} else if errors.As(err, &broken) {
		broken.Stderr = tail.text()
	}
	return result, err
}

// serve sends a run, and follows it to its end. The rest of its output is still to be read.
func (w *Resident) serve(ctx context.Context, in Invocation, text string, out []*stream) (result Result, err error) {
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("%s FAILED: not started: %w", in.Hook, err)
	}
	w.drainOwn() // what was printed before the run
	if !w.send(in.Worker.Run, text) {
		return Result{}, ErrWorkerGone
	}
	in.started(w.pid)
	w.deliverTo(out)
	w.run = &served{forget: context.AfterFunc(ctx, func() { w.stop(context.Cause(ctx)) })}
	for all := slices.Concat(out, w.out); !w.run.answered && !w.gone; {
		w.poll(all, -1)
	}
	used := usageOf(w.pid) // a zombie has it still
	switch {
	case !w.run.answered:
		err = w.lost(ctx, out)
	case w.run.status != 0:
		err = &ExitError{Hook: in.Hook, File: in.file(), Status: "exit status " + strconv.Itoa(w.run.status)}
	}
	w.drainOwn()
	w.deliverTo(w.outside())
	result.Usage = Usage{User: used.User - w.before.User, System: used.System - w.before.System, MaxRSS: used.MaxRSS}
	w.run, w.before = nil, used
	return result, err
}

// send sends a run. It reports false if the worker cannot have begun it.
func (w *Resident) send(run, text string) bool {
	if w.listen(); closed(w.over) {
		return false
	}
	if n, err := unix.Write(w.socket, []byte(text)); err != nil || n < len(text) { // the socket has room for all of it
		w.hangUp()
		return false
	}
	w.talk.send(run)
	return true
}

// lost returns the error of a run whose worker has ended before it answered in time.
func (w *Resident) lost(ctx context.Context, out []*stream) error {
	if ctx.Err() != nil { // a process of the run that has got SIGTERM may still handle it: it has its output open
		readOn(slices.Concat(out, w.out), time.Now().Add(w.e.opts.TermDelay))
	}
	w.kill() // what is left of the run must not go on beside the next attempt
	w.failure = w.finish()
	switch cause := endOfRun(ctx); {
	case cause != nil:
		return cause
	case ctx.Err() != nil:
		return &ExitError{Hook: w.opts.Hook, File: w.opts.file(), Status: w.child.String()}
	}
	return w.failure
}

// Leave ends the worker after the run that it serves.
func (w *Resident) Leave() {
	w.leave.Store(true)
	w.wakeUp()
}

func (w *Resident) wakeUp() { _, _ = w.wake.Write([]byte{0}) }

// Run follows the worker until it has ended.
func (w *Resident) Run() {
	defer context.AfterFunc(w.e.opts.Kill, w.wakeUp)()
	defer w.late.Stop()
	for !w.gone {
		w.poll(w.out, w.woken)
		switch {
		case w.e.opts.Kill.Err() != nil:
			w.quit(0, nil) // an idle worker has nothing to finish
		case closed(w.over):
		case w.leave.Load():
			w.quit(w.e.opts.TermDelay, nil)
			closeEnd(&w.socket)
		case w.wanted.Swap(false):
			w.turn <- struct{}{}
			<-w.back
		}
	}
	if w.failure == nil {
		w.drainOwn()
		for _, s := range w.out {
			s.lines.end()
		}
		w.failure = w.finish()
		w.failure.Stderr, w.failure.BetweenRuns = w.tail.text(), true
	}
	w.closeFiles()
	var broken *WorkerError
	if intended := w.leave.Load() || w.e.opts.Kill.Err() != nil; intended && !errors.As(context.Cause(w.ctx), &broken) {
		w.opts.Ended(nil)
		return
	}
	w.opts.Ended(w.failure)
}

// poll waits for something to happen, and handles it.
func (w *Resident) poll(streams []*stream, wake int) {
	socket := w.socket
	if closed(w.over) {
		socket = -1
	}
	ready, err := poll(-1, streams, w.end.fd, socket, wake)
	if err != nil {
		w.quit(0, &WorkerError{Hook: w.opts.Hook, Problem: "the operator cannot poll its worker: " + err.Error()})
		w.kill()
		ready[0] = true
	}
	if ready[1] {
		w.listen()
	}
	if ready[2] {
		var b [64]byte
		_, _ = descriptor(wake).Read(b[:])
	}
	w.gone = ready[0]
}

// listen reads the socket.
func (w *Resident) listen() {
	var b [maxAnswer + 2]byte
	for !closed(w.over) {
		n, err := descriptor(w.socket).Read(b[:])
		switch {
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil:
			w.hangUp()
		default:
			w.take(b[:n])
		}
	}
}

func (w *Resident) take(received []byte) {
	for {
		sent := w.talk.sent() + string(received[:min(len(received), 100)])
		word, status, wrong := w.talk.next(received)
		received = nil
		switch word {
		case silence:
			return
		case ready:
			if w.late.Stop() {
				w.before = usageOf(w.pid)
				w.opts.Ready()
			}
		case answer: // counts if the time of the run was not over
			w.run.status, w.run.answered = status, w.ctx.Err() == nil && w.run.forget()
		case breach:
			w.quit(0, &WorkerError{Hook: w.opts.Hook, Sent: sent, Problem: "its worker has broken the protocol: " + wrong +
				". Write to descriptor " + WorkerVariable + " only what the reference specifies"})
			return
		}
	}
}

// hangUp ends a worker whose socket has ended. It has a moment to end, so that its status is the cause of the failure.
func (w *Resident) hangUp() {
	w.quit(100*time.Millisecond, &WorkerError{Hook: w.opts.Hook, Problem: "its worker has closed its socket"})
}

// quit accepts no more runs, reads no more of the socket, and lets the process get signals after a delay.
func (w *Resident) quit(delay time.Duration, cause error) {
	w.refuse()
	if delay > 0 {
		time.AfterFunc(delay, func() { w.stop(cause) })
		return
	}
	w.stop(cause)
}

func (w *Resident) refuse() {
	if !closed(w.over) {
		close(w.over)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w *Resident) deliverTo(streams []*stream) {
	for i, s := range w.out {
		s.deliverTo(streams[i])
	}
}

// drainOwn reads what is in the worker's own output, at most what a pipe can have.
func (w *Resident) drainOwn() {
	const most = 64 << 10
	for _, s := range w.out {
		for read := 0; s.read >= 0 && read < most; read += max(1, s.lines.last) {
			polled := []unix.PollFd{{Fd: int32(s.read), Events: unix.POLLIN}}
			if n, err := unix.Poll(polled, 0); err != nil || n == 0 {
				break
			}
			s.ready(polled[0].Revents)
		}
	}
}

// finish takes the status of the process, and returns why it has ended.
func (w *Resident) finish() *WorkerError {
	w.refuse()
	err := w.reap()
	var broken *WorkerError
	switch {
	case err != nil:
		return &WorkerError{Hook: w.opts.Hook, Problem: "the operator cannot wait for its worker: " + err.Error()}
	case errors.As(context.Cause(w.ctx), &broken):
		return broken
	case w.talk.state == talkStarting:
		return &WorkerError{Hook: w.opts.Hook,
			Problem: fmt.Sprintf("its worker ended with %s before it was ready: end the hook with hook::run or hook.run(), "+
				"or remove settings.worker", w.child.String())}
	}
	return &WorkerError{Hook: w.opts.Hook, Problem: "its worker ended with " + w.child.String()}
}

// Alive reports whether the worker can serve another run, as far as is known.
func (w *Resident) Alive() bool { return !closed(w.over) }

// PID is the id of the process.
func (w *Resident) PID() int { return w.pid }
