package app

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
)

// live brings the hooks to life, and, if somebody follows their files, loads them anew when these differ from what was found,
// until ctx ends.
func (op *operator) live(ctx context.Context, found hookset.Files) {
	changes := make(chan struct{}, 1)
	change := func() {
		select {
		case changes <- struct{}{}:
		default: // whoever comes to it sees this change too
		}
	}
	var following sync.WaitGroup
	defer following.Wait()
	if op.texts != nil {
		following.Go(func() {
			_ = hookset.Follow(ctx, hookset.Following{
				Dir: op.reading.Dir, Found: found, Log: op.log, Noticed: op.texts.noticed, Signs: op.texts.signs, Restless: op.texts.addRestless, Changed: change,
			})
		})
	}
	vain := 0
	for ctx.Err() == nil {
		bringing, stop := context.WithCancel(ctx)
		var work sync.WaitGroup
		work.Go(func() { op.bring(bringing) })
		end := func() { stop(); work.Wait() }
		for ended := false; !ended; {
			select {
			case <-changes:
				var again bool
				if ended, again = op.reload(ctx, vain < patient, end); again {
					vain++
					change()
				} else {
					vain = 0
				}
			case <-ctx.Done():
				end()
				ended = true
			}
		}
	}
}

// patient is how often in a row hooks are loaded in vain because their files change meanwhile. Then they may be such as never
// come to rest, and what was loaded is better than nothing.
const patient = 3

// reload loads the hooks and puts them in the place of those that are there, as a whole. When something is wrong with one
// of them nothing changes. It tells whether there are others now; then quiet has been called, which has to end whatever
// brings hooks to life. If whole, and the files change meanwhile, nothing changes either, and it has to be called again.
func (op *operator) reload(ctx context.Context, whole bool, quiet func()) (others, again bool) {
	op.log.Info("Files of hooks have changed. Load all hooks anew.")
	found := hookset.Look(op.reading.Dir)
	loaded, err := hookset.Load(ctx, op.reading)
	var s succession
	var text *hookset.Copy
	var served *webhook.Renewal
	if err == nil {
		var complete bool
		if text, complete = op.texts.copied(found); !complete && whole && ctx.Err() == nil {
			op.log.Info("Files of hooks have changed while they were loaded. Load all hooks once more.")
			return false, true
		}
		s = succeed(op.all(), loaded)
		if !s.nothing() {
			served, err = op.servers.Prepare(ctx, s.hooks)
		}
	}
	if ctx.Err() != nil {
		return false, false
	}
	op.health.Reloaded(causes(err))
	op.meter.Operator.HooksReloaded(err == nil)
	if err != nil {
		op.texts.kept.Drop(text)
		op.log.Error("The hooks cannot be loaded anew, those from before go on", "error", err.Error())
		return false, false
	}
	// Who has mended a hook does not want to wait.
	defer op.queues.Retry(func(queue.Task) bool { return true })
	if s.nothing() {
		op.texts.kept.Use(text)
		op.log.Info("No configuration has changed. The new files count from the next runs on.")
		return false, false
	}
	release, err := op.runner.Hold(ctx, s.held(), func(running []*hook.Hook) {
		var names []string
		for _, h := range running {
			names = append(names, h.Name)
		}
		op.log.Info("Hooks that have changed are running. They are replaced when their runs have ended.", "hooks", strings.Join(names, ", "))
	})
	if err != nil { // the operator ends
		served.Abort()
		return false, false
	}
	quiet()
	op.texts.kept.Use(text)
	op.replace(s)
	release()
	served.Commit(op.health.Answering())
	op.log.Info("Hooks are loaded anew", "added", strings.Join(s.added, ", "), "changed", strings.Join(s.changed, ", "), "removed", strings.Join(s.removed, ", "))
	return true, false
}

// causes are the problems by hook, without values that hooks have printed: pages have no password. The log has the whole error.
func causes(err error) map[string]string {
	var broken *hookset.LoadError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &broken):
		return broken.Causes()
	}
	return map[string]string{"": err.Error()}
}

// replace puts one set of hooks in the place of another. No hook that has changed is running.
func (op *operator) replace(s succession) {
	op.meter.Bind(s.hooks)
	op.runner.Add(s.fresh())
	op.runner.Replace(s.replaced)
	op.mu.Lock()
	for _, h := range s.fresh() {
		op.lives[h] = newLife(h)
	}
	for old, next := range s.replaced {
		if next.Hook != nil {
			op.lives[next.Hook] = op.lives[old].inherit(old, next)
		}
		delete(op.lives, old)
	}
	op.hooks = s.hooks
	op.mu.Unlock()
	for old, next := range s.replaced {
		for i := range old.Kubernetes {
			if at, ok := whereIs(next.Binding, event.Synchronization, i); !ok || !op.watcher.Move(old, i, next.Hook, at) {
				op.watcher.Disable(old, i)
			}
		}
	}
	op.queues.Edit(func(t queue.Task) bool {
		switch t := t.(type) {
		case task:
			return t.Follow()
		case *hookStep:
			return t.follow(s)
		}
		return true
	})
	op.meter.Forget(func(h *hook.Hook) bool { _, ok := s.replaced[h]; return ok })
	op.health.Succeed(s.hooks,
		func(h *hook.Hook) (enabled bool) { op.with(h, func(l *life) { enabled = l.enabled }); return enabled },
		func(h *hook.Hook) bool {
			select {
			case <-op.started(h):
				return true
			default:
				return false
			}
		})
	op.changeSchedules(s)
	for _, name := range s.removed {
		op.hookMetrics.Forget(name)
	}
}

// changeSchedules lets the clock know what the hooks whose schedules are enabled want now.
func (op *operator) changeSchedules(s succession) {
	wanted := map[string]bool{}
	for _, h := range s.hooks {
		if !op.isTicking(h) {
			continue
		}
		for _, b := range h.Schedules {
			wanted[b.Crontab] = true
			op.clock.Register(b.Crontab)
		}
	}
	op.clock.Unregister(func(crontab string) bool { return !wanted[crontab] })
}

// follow makes the step one of its hook's successor. It returns false when nothing is left to do.
func (s *hookStep) follow(to succession) bool {
	next, replaced := to.replaced[s.hook]
	if !replaced {
		return true
	}
	if s.index >= 0 {
		at, ok := whereIs(next.Binding, event.Synchronization, s.index)
		if !ok {
			return false
		}
		s.index = at
	}
	s.hook = next.Hook
	return s.hook != nil
}

// whereIs asks where a binding is; those of a hook that has gone are nowhere.
func whereIs(where func(event.Type, int) (int, bool), typ event.Type, index int) (int, bool) {
	if where == nil {
		return 0, false
	}
	return where(typ, index)
}
