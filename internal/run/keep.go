package run

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/recording"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// keepRecording records a run, if it is one of those that are recorded. It is made of what the run has already, while its files exist.
func (r *Runner) keepRecording(ctx context.Context, a *attempt, f *workspace.Files, err error) {
	t := a.task
	if err != nil && interrupted(ctx) || !r.opts.Recorder.Wants(t.Hook(), err != nil) {
		return
	}
	report := Report{Usage: a.Usage, Err: t.late(ctx, err)}
	a.Unrecorded = r.opts.Recorder.Keep(recording.Run{
		Hook: t.Hook(), ID: t.runID(), Attempt: t.readExtra().attempts, Events: t.Describe(),
		Contexts: f.Contexts(), ContextsChanged: f.ContextsChanged(),
		Environment: slices.Concat(a.in.Env, a.in.Vars), Outputs: a.outputs, File: a.Result,
		HookFailed: a.hookFailed, Unread: a.unread, SecretCalls: a.secretCalls,
		Exit: report.Exit(), Error: withoutOutput(err), Output: a.record.Tail(),
	})
}

// late returns the error of a request whose deadline has passed, instead of the signal that ended the process.
func (t *Task) late(ctx context.Context, err error) error {
	if t.readExtra().review != nil && err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &lateError{context.Cause(ctx)}
	}
	return err
}

// withoutOutput is the text of an error without what the hook printed, of which the recording has the end.
func withoutOutput(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	var exit *process.ExitError
	if errors.As(err, &exit) && exit.Stderr != "" {
		text = strings.ReplaceAll(text, process.Brief(exit.Stderr), exit.Status)
	}
	var worker *process.WorkerError
	if errors.As(err, &worker) {
		text = strings.ReplaceAll(text, worker.Error(), worker.Hook+" FAILED: "+worker.Problem)
	}
	return text
}
