package run

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// Files are the files that hooks run from.
type Files interface {
	// Take returns the path of a hook's file, which stays until release is called, and the number of the set of files that it belongs to.
	Take(h *hook.Hook) (path string, set int, release func())
}

// ownPaths makes hooks run from their own files.
type ownPaths struct{}

func (ownPaths) Take(h *hook.Hook) (path string, set int, release func()) {
	return h.Path, 0, func() {}
}

// hooks are the hooks of a Runner. Only runs for queues count as running: requests have deadlines of their own.
type hooks struct {
	mu    sync.Mutex // guards what follows, also of the states
	known map[*hook.Hook]*hookState
}

// hookState is how far one hook has come, and its runs.
type hookState struct {
	// limit is nil for a hook without a rate limit.
	limit *rate.Limiter
	// running counts the runs for queues. The first of them began at since.
	running int
	since   time.Time
	// companions take part in the runs for queues, answering in those that answer requests.
	companions, answering []Companion
	// idle is set when the hook has been removed, and closed when none of its runs is left.
	idle chan struct{}
}

// Add makes hooks known. Tasks of others do not run.
func (r *Runner) Add(hooks []*hook.Hook) {
	r.hooks.mu.Lock()
	for _, h := range hooks {
		s := &hookState{companions: r.joining(h, false), answering: r.joining(h, true)}
		if h.Settings.MinInterval > 0 {
			s.limit = rate.NewLimiter(rate.Every(h.Settings.MinInterval), max(1, h.Settings.Burst))
		}
		r.hooks.known[h] = s
	}
	r.hooks.mu.Unlock()
	r.Renew()
}

// Remove lets no more task of a hook run: it is done without a run, and a run that fails from now on is not retried. Idle is
// closed when no run for a queue is left; one that is left began at since. Requests are answered until Forget.
func (r *Runner) Remove(h *hook.Hook) (idle <-chan struct{}, since time.Time) {
	r.hooks.mu.Lock()
	defer r.hooks.mu.Unlock()
	s := r.hooks.known[h]
	s.idle = make(chan struct{})
	if s.running == 0 {
		close(s.idle)
	}
	return s.idle, s.since
}

// Forget releases a hook that has been removed, and what its runs have kept or left behind unless there is another version of it.
func (r *Runner) Forget(h *hook.Hook) {
	r.hooks.mu.Lock()
	delete(r.hooks.known, h)
	r.hooks.mu.Unlock()
	r.Renew()
	r.Rejected([]string{h.Name})
	if r.opts.Workspace == nil { // in tests
		return
	}
	r.hooks.mu.Lock()
	defer r.hooks.mu.Unlock()
	for other := range r.hooks.known {
		if workspace.SameFiles(h.Name, other.Name) {
			return
		}
	}
	if n := r.opts.Workspace.EndLeft(h.Name); n > 0 {
		r.opts.Log.Info("Processes that a removed hook has left behind are ended", "hook", h.Name, "processes", n)
	}
}

// Rejected releases what config calls of hooks have kept, unless there is a version of the hook.
func (r *Runner) Rejected(names []string) {
	r.hooks.mu.Lock()
	defer r.hooks.mu.Unlock()
	kept := map[string]bool{}
	for h := range r.hooks.known {
		kept[h.Name] = true
	}
	for _, name := range names {
		if kept[name] {
			continue
		}
		for _, c := range r.opts.Companions {
			if f, ok := c.(Forgetter); ok {
				f.Forget(name)
			}
		}
		if r.opts.Workspace != nil { // it is in tests
			r.opts.Workspace.Leave(name)
		}
	}
}

func (s *hooks) limit(h *hook.Hook) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[h]; known != nil {
		return known.limit
	}
	return nil
}

// companions take part in runs of a hook.
func (s *hooks) companions(h *hook.Hook, answers bool) []Companion {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch known := s.known[h]; {
	case known == nil:
		return nil
	case answers:
		return known.answering
	default:
		return known.companions
	}
}

// removed reports whether no more task of a hook runs for a queue.
func (s *hooks) removed(h *hook.Hook) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone(h)
}

// gone is removed for callers that hold mu.
func (s *hooks) gone(h *hook.Hook) bool { return s.known[h] == nil || s.known[h].idle != nil }

// enter counts a run for a queue, unless the hook has been removed.
func (s *hooks) enter(h *hook.Hook) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone(h) {
		return false
	}
	known := s.known[h]
	if known.running++; known.running == 1 {
		known.since = time.Now()
	}
	return true
}

// leave ends what enter began, and reports whether the hook has been removed since.
func (s *hooks) leave(h *hook.Hook) (removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[h]
	known.running--
	if known.idle != nil && known.running == 0 {
		close(known.idle)
	}
	return known.idle != nil
}
