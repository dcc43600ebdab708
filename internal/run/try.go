package run

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Trial is a run with given contexts instead of events.
type Trial struct {
	Hook     *hook.Hook
	Contexts []byte
	// Attempt counts the runs of the task; 0 means 1.
	Attempt int
}

// Try runs a hook once, exactly as for a task, but returns the outputs, even if the hook failed, instead of applying
// them.
func (r *Runner) Try(ctx context.Context, t Trial) (out Outputs, result process.Result, err error) {
	f, err := r.opts.Workspace.Create(t.Hook.Name, strconv.FormatInt(r.lastID.Add(1), 10))
	if err != nil {
		return out, result, err
	}
	defer func() { _ = r.opts.Workspace.Delete(f) }()
	err = f.WriteContexts(func(w io.Writer) error { _, err := w.Write(t.Contexts); return err })
	if err != nil {
		return out, result, err
	}
	if heads := wire.HeadsOf(t.Contexts); t.Hook.ShellLibrary && heads != nil {
		f.WriteHeads(heads)
	}
	in := r.invocation(t.Hook, f)
	in.Vars = append(in.Vars, attemptVariables(max(1, t.Attempt), 0, "")...)
	if r.opts.Workers != nil && t.Hook.Settings.Worker != nil {
		in.Worker = r.worker(t.Hook, 0, "1", f)
	}
	result, err = r.opts.Executor.Execute(ctx, in)
	out, outErr := f.Outputs(int64(t.Hook.Settings.MaxFileBytes), false)
	if err == nil && outErr != nil {
		err = fmt.Errorf("%s FAILED: %w", t.Hook.Name, outErr)
	}
	return out, result, err
}

// invocation is the same for tasks and trials.
func (r *Runner) invocation(h *hook.Hook, f *workspace.Files) process.Invocation {
	in := r.program(h, f.Own())
	in.Vars = append(f.Environment(), kubectl.Recorded(in.Env, f.CallsFile())...)
	in.Timeout = *cmp.Or(h.Settings.ExecutionTimeout, &r.opts.Timeout)
	return in
}

// program is what is equal for all runs of a hook; own are variables of the hook.
func (r *Runner) program(h *hook.Hook, own []string) process.Invocation {
	program, args := h.Command()
	var env []string
	if r.opts.Env != nil {
		env = r.opts.Env(h)
	}
	return process.Invocation{
		Hook: h.Name, Path: program, Args: args, Dir: filepath.Dir(h.Path),
		Env: append(append(env[:len(env):len(env)], own...), "HOOK_NAME="+h.Name),
	}
}
