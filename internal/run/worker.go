package run

import (
	"cmp"
	"slices"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// worker describes the worker of a hook that has one, for a run from a set of files.
func (r *Runner) worker(h *hook.Hook, set int, run string, f *workspace.Files) *process.Worker {
	limits := h.Settings.Worker
	w := &process.Worker{
		Run: run, Files: set, MaxAge: limits.MaxAge, MaxRuns: limits.MaxRuns, IdleTimeout: limits.IdleTimeout,
		Take: func() func() { _, _, release := r.opts.Files.Take(h); return release },
	}
	if f != nil {
		w.Stdout, w.Stderr = f.Pipes()
	}
	return w
}

// Renew makes workers run from the current files of their hooks, and starts those that are always there. It is called when the hooks or
// their files have changed.
func (r *Runner) Renew() {
	if r.opts.Workers == nil {
		return
	}
	r.hooks.mu.Lock()
	var hooks []*hook.Hook
	for h := range r.hooks.known {
		if h.Settings.Worker != nil {
			hooks = append(hooks, h)
		}
	}
	r.hooks.mu.Unlock()
	slices.SortFunc(hooks, func(a, b *hook.Hook) int { return cmp.Compare(a.Name, b.Name) })
	var all []process.Invocation
	for _, h := range hooks {
		own, err := r.opts.Workspace.Prepare(h.Name)
		if err != nil {
			r.opts.Log.Warn("Cannot make what a worker needs", "hook", h.Name, "error", err.Error())
		}
		path, set, release := r.opts.Files.Take(h)
		in := r.program(withPath(path, h), own)
		release() // each worker takes them again
		in.Worker = r.worker(h, set, "", nil)
		all = append(all, in)
		if h.Count(func(k hook.Kind) bool { return k.Caller() != "" }) > 0 {
			forClients := in
			forClients.Worker = r.worker(h, set, "", nil)
			forClients.Worker.Client = true
			all = append(all, forClients)
		}
	}
	r.opts.Workers.Keep(all)
}
