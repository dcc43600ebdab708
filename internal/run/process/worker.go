package process

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// WorkerVariable names the descriptor of the socket in the environment of a worker.
const WorkerVariable = "HOOK_WORKER_FD"

// Worker has the data that a worker needs of a run that it serves.
type Worker struct {
	// Run is the id of the run.
	Run string
	// Stdout and Stderr are the paths at which the named pipes of the run are made.
	Stdout, Stderr string
	// Files is equal for all runs from the same files of the hook. Take keeps these until release is called.
	Files int
	Take  func() (release func())
	// Client reports that a client waits for the run.
	Client bool
	// MaxAge, MaxRuns and IdleTimeout are the limits of a worker; 0 means none.
	MaxAge, IdleTimeout time.Duration
	MaxRuns             int
}

// Served is the worker of a run; zero without one.
type Served struct {
	// Worker is the number of the worker among the workers of its hook, Run counts the runs that it has served with this one.
	Worker, Run int
	// Started is the run's wait for the start of a worker.
	Started time.Duration
}

// String describes the worker for users.
func (s Served) String() string {
	text := fmt.Sprintf("run %d of worker %d", s.Run, s.Worker)
	if s.Started >= time.Millisecond {
		text += ", after a start of " + s.Started.Round(time.Millisecond).String()
	}
	return text
}

// WorkerError reports that a worker has not served a run.
type WorkerError struct {
	Hook string
	// Problem is the cause and the fix, without output of the hook. Sent is what the worker has sent instead of what it had to.
	Problem, Sent string
	// Stderr is the output of the worker there.
	Stderr string
	// BetweenRuns: it served no run then, so none has failed by it.
	BetweenRuns bool
}

func (e *WorkerError) Error() string {
	text := e.Hook + " FAILED: " + e.Problem
	if e.Sent != "" {
		text += fmt.Sprintf(" (it sent %q)", e.Sent)
	}
	if e.Stderr != "" {
		text += ": " + LastLine(e.Stderr)
	}
	return text
}

// ErrWorkerGone reports that a run has not been sent, because the worker has ended. Another one can serve it.
var ErrWorkerGone = errors.New("the worker has ended")

// maxMessage is the size of the variables of a run, in bytes.
const maxMessage = 64 << 10

// message returns the variables of a run as a worker reads them.
func message(run string, vars []string, pipes *Worker) (string, error) {
	var b strings.Builder
	add := func(variable string) {
		b.WriteString(variable)
		b.WriteByte(0)
	}
	add("HOOK_RUN=" + run)
	for _, v := range vars {
		add(v)
	}
	add("HOOK_STDOUT=" + pipes.Stdout)
	add("HOOK_STDERR=" + pipes.Stderr)
	b.WriteByte(0)
	if b.Len() > maxMessage {
		return "", fmt.Errorf("the variables of the run have %d bytes, and a worker gets at most %d: use shorter keys of its queue",
			b.Len(), maxMessage)
	}
	return b.String(), nil
}
