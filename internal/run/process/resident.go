package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Resident is a process that serves runs one after the other. Its promises:
//   - Run follows the process until it has ended. What it prints outside of runs goes to the functions of its Invocation.
//   - A run that has been sent ends with the answer, or fails. When it fails, all processes of the worker's group have ended.
//   - A process that is to end gets SIGTERM after Options.TermDelay, and SIGKILL after another one, or when Options.Kill ends.
type Resident struct {
	e    *Executor
	opts ResidentOptions
	pid  int
	// socket is our end. stdout and stderr are those of the worker.
	socket         int
	stdout, stderr *stream
	end            *signal
	wakeRead       int
	started        time.Time

	mu sync.Mutex // guards what follows
	// job waits to be sent.
	job *job
	// leave is set when the worker is to end. over is set when no job is accepted any more.
	leave, over bool
	wakeWrite   int

	// The goroutine of Run owns what follows.
	talk talk
	// serving is the job that has been sent, unsent the rest of its message.
	serving *job
	unsent  []byte
	// leaving is how far the end of the worker has come, due is when the next step follows.
	leaving leaving
	due     time.Time
	// gone: the process has ended. Processes of its run may be there.
	gone bool
	// broken is why the worker is ended; nil after Leave.
	broken *WorkerError
	// before is what the worker had used at the end of the last run.
	before Usage
	tail   *tail
	pace   *pace
	status run
}

// leaving are the steps in which a worker is ended.
type leaving int

const (
	staying leaving = iota
	// closed: the socket is.
	closed
	// terminated and killed: the group has got the signal.
	terminated
	killed
)

// ResidentOptions are what to start.
type ResidentOptions struct {
	// Invocation has Hook, Path, Args, Dir and Env. Its Stdout and Stderr receive what is printed outside of runs.
	Invocation
	// ReadyTimeout limits the time until the worker is ready.
	ReadyTimeout time.Duration
	// Ready is called when the worker is ready, Ended when it has ended: with nil after Leave. They must not block.
	Ready func()
	Ended func(err error)
}

// job is a run for a worker.
type job struct {
	ctx            context.Context
	in             Invocation
	message        string
	stdout, stderr *stream
	tail           *tail
	pace           *pace
	timeout        *TimeoutError
	started        time.Time

	// What follows is set when done is closed.
	done   chan struct{}
	result Result
	err    error
}

// StartResident starts a worker. Run has to be called.
func (e *Executor) StartResident(o ResidentOptions) (*Resident, error) {
	w := &Resident{
		e: e, opts: o, started: e.now(), socket: -1, wakeRead: -1, wakeWrite: -1, tail: &tail{}, pace: e.newPace(o.Invocation),
	}
	w.stdout, w.stderr = newStream(o.Stdout, nil, w.pace), newStream(o.Stderr, w.tail, w.pace)
	theirs, err := w.open()
	defer closeEnd(&theirs)
	if err != nil {
		w.closeFiles()
		return nil, fmt.Errorf("%s FAILED: cannot start a worker: %w", o.Hook, err)
	}
	o.Vars = []string{WorkerVariable + "=3"}
	if w.pid, err = e.start(o.Invocation, w.stdout.write, w.stderr.write, uintptr(theirs)); err != nil {
		w.closeFiles()
		return nil, err
	}
	w.stdout.closeWrite()
	w.stderr.closeWrite()
	if w.end, err = e.endOf(w.pid); err != nil {
		_ = abandon(w.pid)
		w.closeFiles()
		return nil, fmt.Errorf("%s FAILED: cannot wait for the worker: %w", o.Hook, err)
	}
	w.due = w.started.Add(o.ReadyTimeout)
	return w, nil
}

// open makes the pipes and the sockets, and returns the end of the worker.
func (w *Resident) open() (theirs int, err error) {
	theirs = -1
	err = errors.Join(w.stdout.open(), w.stderr.open())
	if err == nil {
		w.wakeRead, w.wakeWrite, err = pipe()
	}
	if err == nil {
		w.socket, theirs, err = socketpair()
	}
	if err != nil {
		return theirs, err
	}
	return theirs, errors.Join(unix.SetNonblock(w.socket, true), unix.SetNonblock(w.wakeRead, true), unix.SetNonblock(w.wakeWrite, true))
}

func (w *Resident) closeFiles() {
	w.stdout.close()
	w.stderr.close()
	closeEnd(&w.socket)
	closeEnd(&w.wakeRead)
	closeEnd(&w.wakeWrite)
}

// Serve lets the worker serve a run, and returns as Execute does. The error is ErrWorkerGone if the run has not been sent.
func (w *Resident) Serve(ctx context.Context, in Invocation) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("%s FAILED: not started: %w", in.Hook, err)
	}
	j := &job{in: in, started: w.e.now(), tail: &tail{}, pace: w.e.newPace(in), done: make(chan struct{})}
	if in.Timeout > 0 {
		var cancel context.CancelFunc
		j.timeout = &TimeoutError{in.Hook, in.Timeout}
		ctx, cancel = context.WithTimeoutCause(ctx, in.Timeout, j.timeout)
		defer cancel()
	}
	j.ctx = ctx
	var err error
	if j.message, err = message(in.Worker.Run, in.Vars, in.Worker); err != nil {
		return Result{}, fmt.Errorf("%s FAILED: %w", in.Hook, err)
	}
	if err := j.open(); err != nil {
		return Result{}, fmt.Errorf("%s FAILED: cannot make a named pipe: %w: is the directory of --tmp-dir or --run-dir full or not writable?",
			in.Hook, err)
	}
	defer j.close()
	w.mu.Lock()
	if w.over || w.leave {
		w.mu.Unlock()
		return Result{}, ErrWorkerGone
	}
	w.job = j
	w.wakeLocked()
	w.mu.Unlock()
	defer context.AfterFunc(ctx, w.wake)()
	<-j.done
	return j.result, j.err
}

// open makes the named pipes of a run. Until the answer they have a writer of ours: so they do not end with the first of several programs
// that open them, and a worker that opens one does not block.
func (j *job) open() (err error) {
	j.stdout, j.stderr = newStream(j.in.Stdout, nil, j.pace), newStream(j.in.Stderr, j.tail, j.pace)
	for path, s := range map[string]*stream{j.in.Worker.Stdout: j.stdout, j.in.Worker.Stderr: j.stderr} {
		if err == nil {
			err = os.NewSyscallError("mkfifo", unix.Mkfifo(path, 0o600))
		}
		if err == nil {
			s.read, err = openPipe(path, unix.O_RDONLY)
		}
		if err == nil {
			s.write, err = openPipe(path, unix.O_WRONLY)
		}
	}
	if err != nil {
		j.close()
	}
	return err
}

func openPipe(path string, mode int) (int, error) {
	for {
		fd, err := unix.Open(path, mode|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return -1, os.NewSyscallError("open", err)
		}
	}
}

func (j *job) close() {
	j.stdout.close()
	j.stderr.close()
	_ = os.Remove(j.in.Worker.Stdout)
	_ = os.Remove(j.in.Worker.Stderr)
}

// Leave ends the worker after the run that it serves.
func (w *Resident) Leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave = true
	w.wakeLocked()
}

func (w *Resident) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeLocked()
}

func (w *Resident) wakeLocked() {
	if w.wakeWrite >= 0 {
		_, _ = unix.Write(w.wakeWrite, []byte{0}) // a full pipe wakes, too
	}
}

// Run follows the worker until it has ended.
func (w *Resident) Run() {
	defer context.AfterFunc(w.e.opts.Kill, w.wake)()
	for w.takeOrders(); !w.gone || w.outlived(); w.takeOrders() {
		w.poll()
	}
	w.ended()
}

// takeOrders does what other goroutines have asked for since the last time, and what is due.
func (w *Resident) takeOrders() {
	w.mu.Lock()
	leave := w.leave
	w.mu.Unlock()
	now := w.e.now()
	switch {
	case w.serving != nil && w.serving.ctx.Err() != nil && w.leaving < terminated:
		w.signal(now)
	case w.serving == nil && leave && w.leaving == staying:
		w.leaving, w.due = closed, now.Add(w.e.opts.TermDelay)
		w.refuse(nil)
		closeEnd(&w.socket)
	case w.talk.state == talkStarting && w.leaving == staying && !now.Before(w.due):
		w.breakOff(fmt.Sprintf("its worker was not ready after %s: print nothing on the socket but the line \"ready\" after the preparation, "+
			"or raise --config-timeout", w.opts.ReadyTimeout), "")
	case w.leaving != staying && w.leaving != killed && !now.Before(w.due):
		w.signal(now)
	}
	if w.leaving != staying && w.leaving != killed && w.e.opts.Kill.Err() != nil {
		w.signal(now)
		w.signal(now)
	}
	if w.e.opts.Kill.Err() != nil && w.serving == nil && w.leaving == staying {
		w.refuse(nil)
		w.leaving = terminated
		w.signal(now) // an idle worker has nothing to finish
	}
}

// signal takes the next step of ending the process group.
func (w *Resident) signal(now time.Time) {
	if w.leaving < terminated {
		w.leaving, w.due = terminated, now.Add(w.e.opts.TermDelay)
		_ = syscall.Kill(-w.pid, syscall.SIGTERM)
		return
	}
	w.leaving = killed
	_ = syscall.Kill(-w.pid, syscall.SIGKILL)
}

// breakOff ends a worker that has broken the protocol.
func (w *Resident) breakOff(problem, sent string) {
	if w.broken == nil {
		w.broken = &WorkerError{Hook: w.opts.Hook, Problem: problem, Sent: sent}
	}
	closeEnd(&w.socket)
	w.signal(w.e.now())
}

// refuse accepts no more jobs, and returns those that have not been sent: one that was to be sent now, and the one that waits.
func (w *Resident) refuse(unsent *job) {
	w.mu.Lock()
	waiting := w.job
	w.over, w.job = true, nil
	w.mu.Unlock()
	for _, j := range []*job{unsent, waiting} {
		if j != nil {
			j.err = ErrWorkerGone
			close(j.done)
		}
	}
}

// outlived reports whether a process of a run that has got SIGTERM may still handle it: it has its output open.
func (w *Resident) outlived() bool {
	j := w.serving
	return j != nil && j.ctx.Err() != nil && w.leaving == terminated &&
		max(j.stdout.read, j.stderr.read, w.stdout.read, w.stderr.read) >= 0
}

// poll waits for something to happen, and handles it.
func (w *Resident) poll() {
	polled := [7]unix.PollFd{
		{Fd: int32(w.end.fd), Events: unix.POLLIN}, {Fd: int32(w.wakeRead), Events: unix.POLLIN}, {Fd: int32(w.socket), Events: unix.POLLIN},
		{Fd: int32(w.stdout.read), Events: unix.POLLIN}, {Fd: int32(w.stderr.read), Events: unix.POLLIN}, {Fd: -1}, {Fd: -1},
	}
	if w.gone {
		polled[0].Fd = -1
	}
	if w.serving != nil {
		polled[5] = unix.PollFd{Fd: int32(w.serving.stdout.read), Events: unix.POLLIN}
		polled[6] = unix.PollFd{Fd: int32(w.serving.stderr.read), Events: unix.POLLIN}
		if len(w.unsent) > 0 {
			polled[2].Events |= unix.POLLOUT
		}
	}
	if _, err := unix.Poll(polled[:], w.patience()); err != nil {
		if !errors.Is(err, unix.EINTR) {
			w.breakOff("the operator cannot poll its worker: "+err.Error(), "")
		}
		return
	}
	if polled[1].Revents != 0 {
		var b [64]byte
		_, _ = descriptor(w.wakeRead).Read(b[:])
	}
	w.stdout.ready(polled[3].Revents)
	w.stderr.ready(polled[4].Revents)
	if w.serving != nil {
		w.serving.stdout.ready(polled[5].Revents)
		w.serving.stderr.ready(polled[6].Revents)
	}
	if polled[2].Revents&unix.POLLOUT != 0 {
		w.send()
	}
	if polled[2].Revents&^unix.POLLOUT != 0 {
		w.listen()
	}
	if polled[0].Revents == 0 {
		w.begin()
	} else if w.gone = true; w.serving != nil {
		w.serving.stdout.closeWrite() // so they end with the processes of the run
		w.serving.stderr.closeWrite()
	}
}

// patience is the timeout of poll in milliseconds.
func (w *Resident) patience() int {
	if w.leaving == killed || w.leaving == staying && w.talk.state != talkStarting {
		return -1
	}
	return int(max(0, w.due.Sub(w.e.now()))/time.Millisecond) + 1
}

// begin sends the job that waits, if there is one.
func (w *Resident) begin() {
	w.mu.Lock()
	j := w.job
	if j == nil || w.serving != nil || w.leaving != staying || w.talk.state != talkIdle {
		w.mu.Unlock()
		if j != nil && w.leaving != staying {
			w.refuse(nil)
		}
		return
	}
	w.job = nil
	w.mu.Unlock()
	if err := j.ctx.Err(); err != nil {
		j.err = fmt.Errorf("%s FAILED: not started: %w", j.in.Hook, err)
		close(j.done)
		return
	}
	w.drainOwn() // what was printed before the run
	w.listen()
	if w.leaving != staying {
		w.refuse(j)
		return
	}
	w.talk.send(j.in.Worker.Run)
	w.serving, w.unsent = j, []byte(j.message)
	w.redirect(j.in.Stdout, j.in.Stderr, j.tail, j.pace)
	w.send()
}

// redirect lets the worker's own output go elsewhere.
func (w *Resident) redirect(stdout, stderr func([]byte), tail *tail, pace *pace) {
	w.stdout.lines.end()
	w.stderr.lines.end()
	pace.again()
	w.stdout.lines.deliver, w.stderr.lines.deliver, w.stderr.lines.keep = pace.within(stdout), pace.within(stderr), tail
	w.stdout.pace, w.stderr.pace = pace, pace
}

// send sends as much of the message as fits into the socket.
func (w *Resident) send() {
	for len(w.unsent) > 0 {
		n, err := unix.Write(w.socket, w.unsent)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil: // it has not got the whole message, so it cannot have begun
			j := w.serving
			w.serving, w.unsent = nil, nil
			w.redirect(w.opts.Stdout, w.opts.Stderr, w.tail, w.pace)
			w.breakOff("its worker has closed its socket", "")
			w.refuse(j)
			return
		default:
			w.unsent = w.unsent[n:]
		}
	}
}

// listen reads the socket.
func (w *Resident) listen() {
	var b [maxAnswer + 2]byte
	for w.socket >= 0 {
		n, err := unix.Read(w.socket, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil || n == 0:
			w.hangUp()
			return
		}
		w.hear(b[:n])
	}
}

func (w *Resident) hear(received []byte) {
	if len(w.unsent) > 0 {
		w.breakOff("its worker answered before it had read the variables of the run", string(received[:min(len(received), 100)]))
		return
	}
	for {
		sent := w.talk.sent() + string(received[:min(len(received), 100)])
		word, status, wrong := w.talk.next(received)
		received = nil
		switch word {
		case silence:
			return
		case ready:
			w.before = usageOf(w.pid)
			w.opts.Ready()
		case answer:
			w.complete(status)
		case breach:
			w.breakOff("its worker has broken the protocol: "+wrong+". Write to descriptor "+WorkerVariable+" only what the reference specifies",
				sent)
			return
		}
	}
}

// closing is how long a worker whose socket has ended has to end, so that its status is the cause of the failure.
const closing = 100 * time.Millisecond

func (w *Resident) hangUp() {
	closeEnd(&w.socket)
	if w.broken == nil && w.leaving == staying {
		w.broken = &WorkerError{Hook: w.opts.Hook, Problem: "its worker has closed its socket"}
		w.leaving, w.due = closed, w.e.now().Add(closing)
	}
}

// complete ends a run with the status in the answer.
func (w *Resident) complete(status int) {
	j := w.serving
	if w.leaving != staying {
		return // its time was over
	}
	w.drainOwn()
	w.redirect(w.opts.Stdout, w.opts.Stderr, w.tail, w.pace)
	var err error
	if status != 0 {
		err = &ExitError{Hook: j.in.Hook, Status: "exit status " + strconv.Itoa(status)}
	}
	now := usageOf(w.pid)
	w.finish(j, now, err)
}

// finish reads the rest of the output of a run, and returns its result.
func (w *Resident) finish(j *job, now Usage, err error) {
	ended := w.e.now()
	j.stdout.closeWrite()
	j.stderr.closeWrite()
	j.result.HeldOpen = readOn([]*stream{j.stdout, j.stderr}, ended.Add(w.e.opts.DrainDelay))
	j.stdout.lines.end()
	j.stderr.lines.end()
	j.result.Slowed = j.pace.slowed()
	j.result.Usage = Usage{User: now.User - w.before.User, System: now.System - w.before.System, MaxRSS: now.MaxRSS,
		Wall: ended.Sub(j.started)}
	w.before = now
	var exit *ExitError
	var broken *WorkerError
	if errors.As(err, &exit) {
		exit.Stderr = j.tail.text()
	} else if errors.As(err, &broken) {
		broken.Stderr = j.tail.text()
	}
	j.err = err
	w.serving = nil
	close(j.done)
}

// drainOwn reads what is in the worker's own output, at most what a pipe can have.
func (w *Resident) drainOwn() {
	const most = 64 << 10
	for _, s := range []*stream{w.stdout, w.stderr} {
		for read := 0; s.read >= 0 && read < most; read += max(1, s.lines.last) {
			polled := []unix.PollFd{{Fd: int32(s.read), Events: unix.POLLIN}}
			if n, err := unix.Poll(polled, 0); err != nil || n == 0 {
				break
			}
			s.ready(polled[0].Revents)
		}
	}
}

// ended is called when the process has ended. It is a zombie until its status is taken, so that the kernel does not reuse its pid.
func (w *Resident) ended() {
	w.drainOwn()
	j := w.serving
	if j != nil || w.leaving >= terminated {
		_ = syscall.Kill(-w.pid, syscall.SIGKILL) // what is left of the run must not go on beside the next attempt
	}
	if j != nil {
		w.redirect(w.opts.Stdout, w.opts.Stderr, w.tail, w.pace)
	} else {
		w.stdout.lines.end()
		w.stderr.lines.end()
	}
	used := usageOf(w.pid) // that of a zombie is still there
	w.status.pid = w.pid
	err := w.status.takeStatus()
	w.end.close()
	w.refuse(nil)
	w.mu.Lock()
	closeEnd(&w.wakeWrite)
	w.mu.Unlock()
	cause := w.cause(err)
	if j != nil {
		failure := error(cause)
		if j.timeout != nil && errors.Is(context.Cause(j.ctx), j.timeout) {
			failure = j.timeout
		} else if j.ctx.Err() != nil {
			failure = &ExitError{Hook: j.in.Hook, Status: w.status.String()}
		}
		w.finish(j, used, failure)
	}
	w.closeFiles()
	if w.intended() {
		w.opts.Ended(nil)
		return
	}
	if j == nil {
		cause.Stderr, cause.BetweenRuns = w.tail.text(), true
	}
	w.opts.Ended(cause)
}

// intended reports whether the worker has ended because of Leave or Kill.
func (w *Resident) intended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken == nil && (w.leave || w.e.opts.Kill.Err() != nil)
}

// cause is why the worker has ended.
func (w *Resident) cause(err error) *WorkerError {
	switch {
	case err != nil:
		return &WorkerError{Hook: w.opts.Hook, Problem: "the operator cannot wait for its worker: " + err.Error()}
	case w.broken != nil && w.leaving >= terminated:
		return w.broken
	case w.talk.state == talkStarting:
		return &WorkerError{Hook: w.opts.Hook,
			Problem: fmt.Sprintf("its worker ended with %s before it was ready: end the hook with hook::run or hook.run(), "+
				"or remove settings.worker", w.status.String())}
	}
	return &WorkerError{Hook: w.opts.Hook, Problem: "its worker ended with " + w.status.String()}
}

// Alive reports whether the worker can serve another run, as far as is known.
func (w *Resident) Alive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.over
}

// PID is that of the worker.
func (w *Resident) PID() int { return w.pid }
