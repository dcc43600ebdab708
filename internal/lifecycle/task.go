package lifecycle

import (
	"context"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
)

// Task adapts a run.Task to a queue.Task.
type Task struct{ *run.Task }

var (
	_ queue.Starter   = Task{}
	_ queue.Splitter  = Task{}
	_ queue.Replacer  = Task{}
	_ queue.Backlog   = Task{}
	_ queue.Collector = Task{}
)

// Starting implements queue.Starter.
func (t Task) Starting(s queue.Start) { t.Task.Starting(s.Key, s.Failures, s.Waited) }

// Rest implements queue.Splitter.
func (t Task) Rest() queue.Task {
	if rest := t.Task.Rest(); rest != nil {
		return Task{rest}
	}
	return nil
}

// Replace implements queue.Replacer.
func (t Task) Replace(waiting queue.Task) (empty, done bool) {
	if w, ok := waiting.(Task); ok {
		return t.Task.Replace(w.Task)
	}
	return false, false
}

// Absorb implements queue.Task.
func (t Task) Absorb(behind queue.Task) bool {
	next, ok := behind.(Task)
	return ok && t.Task.Absorb(next.Task)
}

// Policy implements queue.Task. A run that is allowed to fail does not fail in the eyes of the queue.
func (t Task) Policy() queue.Policy {
	return policyOf(t.Task.Policy())
}

func policyOf(p hook.Policy) queue.Policy {
	if !p.Given {
		return queue.Policy{}
	}
	return queue.Policy{MinDelay: p.MinDelay, MaxDelay: p.MaxDelay, Limit: p.Limit}
}

// stepTask is a task of the lifecycle itself. It runs when everything before it in the queue is done.
type stepTask struct {
	name string
	// hook is nil for a step of all hooks.
	hook *hook.Hook
	do   func()
}

var _ queue.Task = (*stepTask)(nil)

func (s *stepTask) Ready() (time.Duration, func()) { return 0, nil }
func (s *stepTask) Run(context.Context) error      { s.do(); return nil }
func (s *stepTask) Absorb(queue.Task) bool         { return false }
func (s *stepTask) Policy() queue.Policy           { return queue.Policy{} }
func (s *stepTask) String() string                 { return s.name }

// Owner is the hook.
func (s *stepTask) Owner() string {
	if s.hook == nil {
		return ""
	}
	return s.hook.Name
}

// hookOf returns the hook that a task belongs to, or nil.
func hookOf(t queue.Task) *hook.Hook {
	switch t := t.(type) {
	case Task:
		return t.Hook()
	case *stepTask:
		return t.hook
	}
	return nil
}
