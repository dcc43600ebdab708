package recording

import (
	"context"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
)

var _ run.Companion = (*Recorder)(nil)

// Joins implements run.Companion.
func (r *Recorder) Joins(h *hook.Hook, _ bool) bool {
	mode, _ := r.mode(h)
	return mode != hook.RecordNone
}

// Settle records a run, if it is one of those that are recorded. The recording is made of what the run has already.
func (r *Recorder) Settle(ctx context.Context, a *run.Attempt, outcome error) error {
	if a.Files == nil || outcome != nil && run.Interrupted(ctx) {
		return nil
	}
	if mode, always := r.mode(a.Hook); !always && (outcome == nil || mode != hook.RecordFailures) {
		return nil
	}
	report, text := run.Report{Usage: a.Usage, Err: outcome}, ""
	if outcome != nil {
		text = outcome.Error()
	}
	r.keepRun(Run{
		Hook: a.Hook, ID: a.Task.RunID(), Attempt: a.Attempt, Events: a.Task.Describe(),
		Contexts: a.Files.Contexts(), ContextsChanged: a.Files.ContextsChanged(), Outputs: a.Outputs, File: a.Result,
		HookFailed: a.HookFailed, Unread: a.Unread, SecretCalls: a.SecretCalls, Exit: report.Exit(), Error: text, Output: a.Record.Tail(),
	})
	return nil
}
