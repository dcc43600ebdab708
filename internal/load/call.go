package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shell-operator/shell-operator/internal/discover"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// caller asks hooks for their configuration. It makes the executor of runs fit for discovery.
type caller struct {
	executor *process.Executor
	env      []string
	timeout  time.Duration
}

func (c caller) Call(ctx context.Context, f discover.File, dir string) (stdout, stderr []byte, err error) {
	var out, errOut bytes.Buffer
	program, args := (&hook.Hook{Path: f.Path, Interpreter: f.Interpreter}).Command()
	_, err = c.executor.Execute(ctx, process.Invocation{
		Hook: f.Name, Path: program, Args: append(args, "--config"), Dir: dir, Env: c.env, Timeout: c.timeout,
		Stdout: collect(&out), Stderr: collect(&errOut),
	})
	var exit *process.ExitError
	var timeout *process.TimeoutError
	var start *process.StartError
	switch {
	case errors.As(err, &exit):
		err = errors.New(exit.Status + exit.Mend())
	case errors.As(err, &timeout):
		err = fmt.Errorf("it was still running after %s and was killed: make it print the configuration and exit, or raise --config-timeout", c.timeout)
	case errors.As(err, &start):
		err = errors.New(start.Reason())
	}
	return out.Bytes(), errOut.Bytes(), err
}

func collect(b *bytes.Buffer) func(line []byte) {
	return func(line []byte) {
		b.Write(line)
		b.WriteByte('\n')
	}
}
