package run

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/time/rate"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Successor is what has become of a hook that was loaded anew.
type Successor struct {
	// Hook is nil when the hook has gone.
	Hook *hook.Hook
	// Binding returns where a binding is now, or false when it has gone, or is another one.
	Binding func(typ event.Type, index int) (now int, ok bool)
}

var errGone = errors.New("the hook, or its binding, has been removed meanwhile")

// succession knows which hooks have been replaced, and keeps them from running while they are.
type succession struct {
	// swapping is held for reading while a review's context is written, and for writing while hooks are replaced.
	swapping sync.RWMutex

	mu         sync.Mutex // guards what follows
	successors map[*hook.Hook]Successor
	// running counts the runs of tasks from queues.
	running map[*hook.Hook]int
	// held is closed when the hooks in holding may run again. Nil while nothing is held.
	held    chan struct{}
	holding map[*hook.Hook]bool
	// idle is closed when no hook that is held is running any more.
	idle chan struct{}
}

// Hold waits until none of the hooks is running for a queue, and keeps them from running until release is called. If it has
// to wait, waits is told for which hooks. There must not be two Holds at a time.
func (r *Runner) Hold(ctx context.Context, hooks []*hook.Hook, waits func(running []*hook.Hook)) (release func(), err error) {
	s := &r.succession
	s.mu.Lock()
	s.held, s.idle, s.holding = make(chan struct{}), make(chan struct{}), map[*hook.Hook]bool{}
	var running []*hook.Hook
	for _, h := range hooks {
		s.holding[h] = true
		if s.running[h] > 0 {
			running = append(running, h)
		}
	}
	idle := s.idle
	s.tellIdle()
	s.mu.Unlock()
	if len(running) > 0 {
		waits(running)
	}
	select {
	case <-idle:
		s.swapping.Lock()
		return func() { s.swapping.Unlock(); s.letGo() }, nil
	case <-ctx.Done():
		s.letGo()
		return nil, ctx.Err()
	}
}

func (s *succession) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.held)
	s.held, s.holding, s.idle = nil, nil, nil
}

// tellIdle closes idle when it is time. The caller holds mu.
func (s *succession) tellIdle() {
	if s.idle == nil {
		return
	}
	for h := range s.holding {
		if s.running[h] > 0 {
			return
		}
	}
	close(s.idle)
	s.idle = nil
}

// Replace makes tasks of hooks that were loaded anew run what the hooks are now. Call it while the hooks are held.
func (r *Runner) Replace(successors map[*hook.Hook]Successor) {
	s := &r.succession
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.successors == nil {
		s.successors = map[*hook.Hook]Successor{}
	}
	for old, next := range successors {
		s.successors[old] = next
		if s.holding[old] && next.Hook != nil {
			s.holding[next.Hook] = true
		}
		limit := r.limits[old]
		delete(r.limits, old)
		switch {
		case next.Hook == nil:
		case limit != nil && sameLimit(old, next.Hook):
			r.limits[next.Hook] = limit // what is left of the tokens stays
		default:
			r.limit(next.Hook)
		}
	}
}

// Add makes hooks known that are new.
func (r *Runner) Add(hooks []*hook.Hook) {
	r.succession.mu.Lock()
	defer r.succession.mu.Unlock()
	for _, h := range hooks {
		r.limit(h)
	}
}

// limit makes the rate limiter of a hook. The caller holds the lock of succession.
func (r *Runner) limit(h *hook.Hook) {
	if h.Settings.MinInterval > 0 {
		r.limits[h] = rate.NewLimiter(rate.Every(h.Settings.MinInterval), max(1, h.Settings.Burst))
	}
}

func sameLimit(a, b *hook.Hook) bool {
	return a.Settings.MinInterval == b.Settings.MinInterval && a.Settings.Burst == b.Settings.Burst
}

// enter waits until the task's hook may run, and lets the task follow it. It tells whether anything is left to do. The
// caller calls leave when the run is over.
func (s *succession) enter(ctx context.Context, t *Task) (leave func(), wanted bool, err error) {
	for {
		s.mu.Lock()
		if !s.follow(t) {
			s.mu.Unlock()
			return nil, false, nil
		}
		h := t.Hook()
		if !s.holding[h] {
			if s.running == nil {
				s.running = map[*hook.Hook]int{}
			}
			s.running[h]++
			s.mu.Unlock()
			return func() { s.leave(h) }, true, nil
		}
		held := s.held
		s.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

func (s *succession) leave(h *hook.Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[h]--; s.running[h] == 0 {
		delete(s.running, h)
	}
	s.tellIdle()
}

// Follow makes the task one of the hooks as they are now. It returns false when nothing is left to do. It must not be
// called while Run is running.
func (t *Task) Follow() (wanted bool) {
	s := &t.runner.succession
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.follow(t)
}

func (s *succession) follow(t *Task) (wanted bool) {
	for {
		next, replaced := s.successors[t.Hook()]
		if !replaced {
			return t.events.Len() > 0 || t.synchronizes()
		}
		if next.Hook == nil {
			t.events, t.rest().unlocks = event.Log{}, nil
			return false
		}
		t.move(next)
	}
}

// move makes the task one of a hook's successor. Events of bindings that have gone are dropped: nobody wants to know.
func (t *Task) move(next Successor) {
	var events event.Log
	for ev := range t.events.All(next.Hook) {
		if index, ok := next.Binding(ev.Type, ev.Index); ok {
			ev.Index = index
			events.Add(ev)
		}
	}
	t.current.Store(next.Hook)
	t.events = events
	if !t.synchronizes() {
		return
	}
	var unlocks []int
	for _, old := range t.more.unlocks {
		if index, ok := next.Binding(event.Synchronization, old); ok {
			unlocks = append(unlocks, index)
		}
	}
	t.more.unlocks = unlocks
}
