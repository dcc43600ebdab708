package run

import (
	"context"
	"errors"

	"github.com/shell-operator/shell-operator/internal/run/recording"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// keepRecording records a run, if it is one of those that are recorded. It is made of what the run has already, while its files exist.
func (r *Runner) keepRecording(ctx context.Context, a *Attempt, f *workspace.Files, err error) {
	t := a.Task
	if err != nil && interrupted(ctx) || !r.opts.Recorder.Wants(t.Hook(), err != nil) {
		return
	}
	report, text := Report{Usage: a.Usage, Err: t.late(ctx, err)}, ""
	if err != nil {
		text = err.Error()
	}
	r.opts.Recorder.Keep(recording.Run{
		Hook: t.Hook(), ID: t.RunID(), Attempt: t.readExtra().last.attempts, Events: t.Describe(),
		Contexts: f.Contexts(), ContextsChanged: f.ContextsChanged(),
		Outputs: a.outputs, File: a.Result,
		HookFailed: a.hookFailed, Unread: a.unread, SecretCalls: a.secretCalls,
		Exit: report.Exit(), Error: text, Output: a.Record.Tail(),
	})
}

// late returns the error of a request whose deadline has passed, instead of the signal that ended the process.
func (t *Task) late(ctx context.Context, err error) error {
	if t.readExtra().review != nil && err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &requestError{context.Cause(ctx), "no answer in time", "it gave no answer in time"}
	}
	return err
}
