package lifecycle

import (
	"context"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
)

// Task adapts a run.Task to a queue.Task.
type Task struct{ *run.Task }

var _ queue.Waiter = Task{}

// Absorb implements queue.Task.
func (t Task) Absorb(behind queue.Task) bool {
	next, ok := behind.(Task)
	return ok && t.Task.Absorb(next.Task)
}

// stepTask is a task of the lifecycle itself. It runs when everything before it in the queue is done.
type stepTask struct {
	name string
	// hook is nil for a step of all hooks.
	hook *hook.Hook
	do   func()
}

func (s stepTask) Ready(ctx context.Context) error { return ctx.Err() }
func (s stepTask) Run(context.Context) error       { s.do(); return nil }
func (s stepTask) Absorb(queue.Task) bool          { return false }
func (s stepTask) String() string                  { return s.name }

// hookOf returns the hook that a task belongs to, or nil.
func hookOf(t queue.Task) *hook.Hook {
	switch t := t.(type) {
	case Task:
		return t.Hook()
	case stepTask:
		return t.hook
	}
	return nil
}
