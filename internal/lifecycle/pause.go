package lifecycle

import (
	"context"
	"slices"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// PauseHook ends the runs of a hook for queues until ResumeHook, as if it was removed: what waits is dropped. Requests are answered. Later
// versions of the hook are paused, too. It returns when that is done.
func (l *Lifecycle) PauseHook(name string) { l.withHook(name, l.pause) }

// ResumeHook ends PauseHook: the hook starts as if it was added, as soon as a run from before has ended.
func (l *Lifecycle) ResumeHook(name string) { l.withHook(name, l.resume) }

// PausedHooks are the names of the hooks that are paused, sorted.
func (l *Lifecycle) PausedHooks() (names []string) {
	for h, s := range l.view.Load().states {
		if s == Paused {
			names = append(names, h.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (l *Lifecycle) pause(x *life) {
	if !l.step(x, Paused) {
		return
	}
	l.stop(x)
	x.ctx, x.end = context.WithCancel(l.ctx)
	x.listed, x.finalized, x.failed = x.listed && serves(x.hook), false, false
	l.setCrontabs()
	l.hold(x)
}

func (l *Lifecycle) resume(x *life) {
	if !l.step(x, Loaded) {
		return
	}
	x.end() // of what requests need while it is paused
	x.ctx, x.end = context.WithCancel(l.ctx)
	x.listed = false
	x.passed.Store(false)
	l.o.Health.Enabling(x.hook)
	l.hold(x)
}

// restart lets a hook run again that was paused.
func (l *Lifecycle) restart(x *life) {
	if x.stopped {
		x.stopped = false
		l.dropTasks(x.hook) // of events that were on their way
		l.o.Runner.Add([]*hook.Hook{x.hook})
	}
}

// withHook lets the owner do something for an active hook, and waits for it.
func (l *Lifecycle) withHook(name string, do func(*life)) {
	done := make(chan struct{})
	select {
	case l.inbox <- func() {
		for _, x := range l.lives {
			if x.hook.Name == name {
				do(x)
			}
		}
		l.publish()
		close(done)
	}:
		<-done
	case <-l.ended:
	}
}
