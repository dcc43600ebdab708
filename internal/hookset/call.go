package hookset

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// execute runs a hook with --config in the hooks directory. It returns what was printed, as much of it as there is, also together with an
// error, which says what to do about a hook that did not end in time.
func (o *Options) execute(ctx context.Context, f File, dir string) (stdout, stderr []byte, err error) {
	env := o.Env
	if o.Prepare != nil {
		own, err := o.Prepare(f.Name)
		if err != nil {
			return nil, nil, err
		}
		env = append(env[:len(env):len(env)], own...)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, errOut := collected{tooMuch: stop}, collected{tooMuch: stop}
	program, args := (&hook.Hook{Path: f.Path, Interpreter: f.Interpreter}).Command()
	_, err = o.Executor.Execute(ctx, process.Invocation{
		Hook: f.Name, Path: program, Args: append(args, "--config"), Dir: dir, Env: env, Timeout: o.Timeout,
		Stdout: out.line, Stderr: errOut.line,
	})
	var exit *process.ExitError
	var timeout *process.TimeoutError
	var start *process.StartError
	switch {
	case errors.Is(context.Cause(ctx), errTooMuch):
		err = errTooMuch
	case errors.As(err, &exit):
		err = exit
	case errors.As(err, &timeout):
		err = fmt.Errorf("it was still running after %s and was killed: make it print the configuration and exit, or raise --config-timeout",
			o.Timeout)
	case errors.As(err, &start):
		err = errors.New(start.Reason())
	}
	return out.text.Bytes(), errOut.text.Bytes(), err
}

// maxPrinted bounds the output of a config call. A hook that prints without end would otherwise take all memory until its time
// is up.
const maxPrinted = 16 << 20

var errTooMuch = fmt.Errorf("it printed more than %d bytes and was killed: make it print the configuration, nothing else, and exit",
	maxPrinted)

// collected is the output of a call on one stream, up to its bound.
type collected struct {
	text    bytes.Buffer
	tooMuch context.CancelCauseFunc
}

func (c *collected) line(line []byte) {
	if c.text.Len()+len(line) >= maxPrinted {
		c.tooMuch(errTooMuch)
		return
	}
	c.text.Write(line)
	c.text.WriteByte('\n')
}
