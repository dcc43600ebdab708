package run

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// blockedDelay is the time after which a blocked run is tried again, if nothing reports before that it may start.
const blockedDelay = time.Minute

// ErrWaits is the error of a review whose run has not begun, because its hook waits for a token or a permission of its account.
var ErrWaits = errors.New("the hook waits for its account")

// blockedError is a run that has not begun, because its hook has to wait.
type blockedError struct{ why string }

func (e *blockedError) Error() string { return e.why }

// Is makes it an ErrWaits.
func (e *blockedError) Is(target error) bool { return target == ErrWaits }

// BlockedFor implements queue.Blocked.
func (e *blockedError) BlockedFor() time.Duration { return blockedDelay }

// Blocked reports whether the last run of the task could not begin.
func (t *Task) Blocked() bool { return t.extra != nil && t.extra.blocked }

// blocked is why a run may not begin; empty if it may.
func (r *Runner) blocked(t *Task) string {
	h := t.Hook()
	if h.Tenant == nil || r.opts.Access == nil {
		return ""
	}
	if why := r.deniedIncludes(t); why != "" {
		return why
	}
	if why := r.opts.Access.Waits(h); why != "" {
		return fmt.Sprintf("the hooks of tenant %q wait: %s", h.Tenant.Name, why)
	}
	return ""
}

// deniedIncludes names a binding that the run includes, and whose objects the account of the hook may not read; empty if there is none.
func (r *Runner) deniedIncludes(t *Task) string {
	h := t.Hook()
	for ev := range t.Events() {
		for _, index := range ev.Binding().Includes {
			if r.opts.Access.Denied(h, index) {
				return fmt.Sprintf("the account of tenant %q may not read the objects of binding %q, which the run includes", h.Tenant.Name,
					h.Kubernetes[index].Name)
			}
		}
	}
	return ""
}

// deniedSince is the error of a run whose snapshots may be empty because they were taken when a binding had just ended; nil for others.
func (r *Runner) deniedSince(t *Task) error {
	if t.Hook().Tenant == nil || r.opts.Access == nil {
		return nil
	}
	if why := r.deniedIncludes(t); why != "" {
		return fmt.Errorf("%s FAILED: %s", t.Hook().Name, why)
	}
	for index := range t.Hook().Kubernetes {
		lists := func(ev event.Event) bool { return ev.Type == event.Synchronization && ev.Index == index }
		if r.opts.Access.Denied(t.Hook(), index) && t.has(lists) {
			return fmt.Errorf("%s FAILED: the account of tenant %q may not read the objects of binding %q any more", t.Hook().Name,
				t.Hook().Tenant.Name, t.Hook().Kubernetes[index].Name)
		}
	}
	return nil
}

func (t *Task) has(fits func(event.Event) bool) bool {
	for ev := range t.Events() {
		if fits(ev) {
			return true
		}
	}
	return false
}

// dropDenied drops the contexts that the account of the hook may not read any more, and reports whether nothing is left to do.
func (t *Task) dropDenied() (empty bool) {
	h, access := t.Hook(), t.runner.opts.Access
	if h.Tenant == nil || access == nil {
		return false
	}
	for index := range h.Kubernetes {
		if access.Denied(h, index) && t.DropBinding(index) {
			return true
		}
	}
	return false
}

// DropBinding drops what is parked or requeued of a kubernetes binding that is denied. A run in flight does not unlock it: it may have
// begun again, with a Synchronization of its own, when that run ends.
func (r *Runner) DropBinding(h *hook.Hook, index int) {
	r.hooks.mu.Lock()
	if s := r.hooks.known[h]; s != nil {
		if s.ended == nil {
			s.ended = map[int]int{}
		}
		s.endings++
		s.ended[index] = s.endings
	}
	r.hooks.mu.Unlock()
	r.Pending().DropBinding(h, index)
}

// endings is how often bindings of a hook have ended.
func (r *Runner) endings(h *hook.Hook) int {
	r.hooks.mu.Lock()
	defer r.hooks.mu.Unlock()
	if s := r.hooks.known[h]; s != nil {
		return s.endings
	}
	return 0
}

// unlock unlocks the bindings of the task, but for those that have ended since its run began.
func (t *Task) unlock() {
	m, r, h := t.readExtra(), t.runner, t.Hook()
	for _, index := range m.unlocks {
		r.hooks.mu.Lock()
		s := r.hooks.known[h]
		stale := s != nil && m.runs > 0 && s.ended[index] > m.endings
		r.hooks.mu.Unlock()
		if !stale {
			r.opts.Snapshots.Unlock(h, index)
		}
	}
}

// DropBinding drops the contexts of a kubernetes binding, and reports whether nothing is left to do. The task must not be running.
func (t *Task) DropBinding(index int) (empty bool) {
	h := t.Hook()
	of := func(ev event.Event) bool { return ev.Of(h, index) }
	unlocks := t.extra != nil && slices.Contains(t.extra.unlocks, index)
	if !t.has(of) && !unlocks {
		return false
	}
	if unlocks {
		t.extra.unlocks = slices.DeleteFunc(slices.Clone(t.extra.unlocks), func(i int) bool { return i == index })
	}
	for ev := range t.Events() {
		if of(ev) {
			t.runner.opts.Pending.Lanes.Leave(&ev)
		}
	}
	t.events.Retain(h, func(ev event.Event) bool { return !of(ev) })
	if t.events.Len() > 0 {
		initial := t.first.initial
		t.first = addressOf(t.events.First(h))
		t.first.initial = initial
		return false
	}
	return t.extra == nil || len(t.extra.unlocks) == 0
}
