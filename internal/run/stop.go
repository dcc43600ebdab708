package run

import (
	"context"
	"sync"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// processes are the runs for queues whose process runs, by their ids.
type processes struct {
	mu sync.Mutex
	of map[string]running
}

type running struct {
	task *Task
	stop context.CancelCauseFunc
}

// enter adds a run until leave is called. The returned context ends with Stop.
func (p *processes) enter(ctx context.Context, t *Task) (stoppable context.Context, leave func()) {
	ctx, stop := context.WithCancelCause(ctx)
	id := t.RunID()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[id] = running{t, stop}
	return ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.of, id)
		stop(nil)
	}
}

// Stopped describes a run whose process Stop ends.
type Stopped struct {
	Attempt int
	Policy  hook.Policy
	// Last says why no other attempt follows; empty if one does.
	Last string
}

// Stop ends the process of a run for a queue as its time limit would, unless it is a dry run. It returns false if no process of it runs.
func (r *Runner) Stop(id string, dryRun bool) (s Stopped, ok bool) {
	r.processes.mu.Lock() // the task does not change meanwhile
	defer r.processes.mu.Unlock()
	p, ok := r.processes.of[id]
	if !ok {
		return s, false
	}
	if !dryRun {
		p.stop(&process.StopError{Hook: p.task.Hook().Name})
	}
	return Stopped{p.task.readExtra().last.attempts, p.task.Policy(), p.task.last()}, true
}

// last says why no other attempt follows if the one in progress fails; empty if one does.
func (t *Task) last() string {
	switch limit := t.limit(); {
	case t.runner.hooks.removed(t.Hook()):
		return "its hook was changed, removed or paused, so it is not retried"
	case t.mayFail():
		return "its binding allows failure, so it is not retried"
	case limit == 0 || t.readExtra().last.attempts < limit:
		return ""
	case t.Policy().Exhausted == hook.Drop:
		return "it was the last attempt: its contexts are dropped"
	}
	return "it was the last attempt: its contexts are parked"
}
