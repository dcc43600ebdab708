package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/queue"
)

// reloading is the state of reloads.
type reloading struct {
	// found are the files of the last set that was loaded.
	found hookset.Files
	// cancel ends the load that is in progress; nil without one. A load lasts until its hooks answer requests or it is
	// rejected. again: files have changed since it began.
	cancel context.CancelFunc
	again  bool
	// cancelled counts the loads in a row that were ended for a newer one.
	cancelled int
}

// maxCancelled is how many loads in a row end because files have changed again. Such files may never come to rest.
const maxCancelled = 3

// loaded is what a load has prepared.
type loaded struct {
	set     *hookset.Set
	change  hookset.Change
	renewal Renewal
	err     error
}

// follow posts a reload after each change of the files.
func (l *Lifecycle) follow(ctx context.Context) {
	_ = hookset.Follow(ctx, hookset.Following{
		Dir: l.o.Load.Dir, Found: l.reloading.found, Log: l.o.Log,
		Changed: func() { l.post(ctx, l.reload) },
	})
}

// reload loads the hooks in the background. A load in progress is cancelled: its files are outdated.
func (l *Lifecycle) reload() {
	r := &l.reloading
	if r.cancel != nil {
		r.again = true
		if r.cancelled < maxCancelled {
			r.cancelled++
			r.cancel()
		}
		return
	}
	l.o.Log.Info("Files of hooks have changed. Reload all hooks.")
	active := l.Hooks()
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(l.ctx)
	l.work.Go(func() {
		result := l.load(ctx, active)
		select {
		case l.inbox <- func() { l.apply(result) }:
		case <-l.ctx.Done():
			l.drop(result)
		}
	})
}

// load loads all hooks.
func (l *Lifecycle) load(ctx context.Context, active []*hook.Hook) (r loaded) {
	if r.set, r.err = l.o.Store.Load(ctx, l.o.Load); r.err != nil {
		return r
	}
	r.change = r.set.ChangeFrom(active)
	if len(r.change.New)+len(r.change.Old) == 0 {
		return r
	}
	renewal, err := l.o.Prepare(ctx, r.change.Hooks)
	if r.err = err; err == nil { // otherwise it may be a nil pointer, which no method can be called of
		r.renewal = renewal
	}
	return r
}

// drop gives back what a load has prepared.
func (l *Lifecycle) drop(r loaded) {
	if r.set != nil {
		l.o.Store.Drop(r.set)
	}
	if r.renewal != nil {
		r.renewal.Abort()
	}
}

// apply replaces the active set, unless the new one is rejected.
func (l *Lifecycle) apply(r loaded) {
	done := l.reloadEnded
	defer func() { done() }()
	if l.ctx.Err() != nil || l.reloading.again && errors.Is(r.err, context.Canceled) {
		l.drop(r)
		return
	}
	l.reloading.cancelled = 0
	l.o.Health.Reloaded(l.causes(r.err))
	l.o.Meter.HooksReloaded(r.err == nil)
	if r.err != nil {
		l.drop(r)
		if l.o.Reloaded != nil {
			l.o.Reloaded(r.err)
			return
		}
		l.o.Log.Error("Reload rejected, the previous hooks stay active", "error", r.err.Error())
		return
	}
	if l.o.Reloaded != nil {
		defer l.o.Reloaded(nil)
	}
	c := r.change
	// A delay and an attempt belong to the old files.
	defer l.o.Queues.Repeat(func(t queue.Task) bool { return slices.Contains(c.Touched, hookOf(t)) })
	l.o.Store.Use(r.set, c.Hooks)
	l.o.Runner.Renew()
	if r.renewal == nil {
		l.o.Log.Info("No configuration has changed. The next runs use the new files.")
		return
	}
	var leaving []*life
	l.lives = slices.DeleteFunc(l.lives, func(x *life) bool {
		if slices.Contains(c.Old, x.hook) {
			leaving = append(leaving, x)
			return true
		}
		return false
	})
	var pauses []string
	for _, x := range leaving {
		if x.state == Paused {
			pauses = append(pauses, x.hook.Name)
		}
		l.retire(x)
	}
	l.add(c.Hooks, c.New)
	for _, x := range l.lives {
		if slices.Contains(pauses, x.hook.Name) {
			l.pause(x)
		}
	}
	l.keepQueues()
	l.setCrontabs()
	for _, x := range l.lives {
		l.hold(x)
	}
	done = func() {}
	l.work.Go(func() { // the servers may have to end what they do
		r.renewal.Commit(func() {
			l.post(l.ctx, func() {
				for _, x := range slices.Clone(l.leaving) {
					x.answering = x.answering && r.renewal.Holds(x.hook)
					l.settle(x)
				}
			})
		})
		l.post(l.ctx, l.reloadEnded)
	})
	for _, x := range leaving {
		l.settle(x)
	}
	l.o.Log.Info("Hooks are reloaded", "added", strings.Join(c.Added, ", "), "changed", strings.Join(c.Changed, ", "),
		"removed", strings.Join(c.Removed, ", "))
}

// reloadEnded begins the next reload if files have changed meanwhile.
func (l *Lifecycle) reloadEnded() {
	r := &l.reloading
	r.cancel()
	again := r.again
	r.cancel, r.again = nil, false
	if again {
		l.reload()
	}
}

// causes are the problems by hook. The log has the whole error.
func (l *Lifecycle) causes(err error) map[string]hookset.Rejection {
	if err == nil {
		return nil
	}
	causes := map[string]hookset.Rejection{"": {Text: err.Error()}}
	if broken := new(hookset.LoadError); errors.As(err, &broken) {
		causes = broken.Causes()
	}
	if problem := l.o.Store.Problem(); problem != "" {
		causes[""] = hookset.Rejection{Text: strings.TrimPrefix(causes[""].Text+"; "+problem, "; ")}
	}
	return causes
}

// retire ends the life of a hook. Requests are answered as before: their snapshots stay current.
func (l *Lifecycle) retire(x *life) {
	l.step(x, Draining)
	l.leaving = append(l.leaving, x)
	x.answering = serves(x.hook)
	l.stop(x)
}

// stop ends what makes a hook run, and drops what waits. A run that has begun ends by itself.
func (l *Lifecycle) stop(x *life) {
	if x.end(); x.stopped {
		return
	}
	x.stopped = true
	idle, since := l.o.Runner.Remove(x.hook)
	select {
	case <-idle:
	default:
		x.running, x.since = true, since
		l.o.Log.Info("A hook that was changed, removed or paused is running. It starts again when the run has ended.", "hook", x.hook.Name,
			"since", since.Format(time.RFC3339))
		l.await(l.ctx, idle, func() {
			x.running = false
			l.o.Log.Info("The run of a hook that was changed, removed or paused has ended", "hook", x.hook.Name)
			l.dropPending(x.hook) // it may have left something
			l.settle(x)
			for _, next := range l.lives {
				l.hold(next)
			}
		})
	}
	l.o.Watcher.Mute(x.hook) // a task that is queued later all the same does not run
	l.dropTasks(x.hook)
	l.dropPending(x.hook)
}

func (l *Lifecycle) dropTasks(h *hook.Hook) {
	l.o.Queues.Edit(func(t queue.Task) bool {
		if hookOf(t) != h {
			return true
		}
		if t, ok := t.(Task); ok {
			t.Forget()
		}
		return false
	})
}

// dropPending drops what a hook would get again.
func (l *Lifecycle) dropPending(h *hook.Hook) {
	l.o.Pending.Retain(func(other *hook.Hook) bool { return other != h })
}

// hold shows users the reason why a hook has not started.
func (l *Lifecycle) hold(x *life) {
	why := ""
	if old := l.previous(x); old != nil && x.state == Loaded {
		why = fmt.Sprintf("a run of its previous version, which began at %s, has not ended", old.since.Format(time.RFC3339))
	}
	switch {
	case x.state == Paused:
		why = "it is paused"
	case x.state == Loaded && x.running:
		why = fmt.Sprintf("a run from before its pause, which began at %s, has not ended", x.since.Format(time.RFC3339))
	}
	l.o.Health.Hold(x.hook, why)
}

// settle ends a hook that was retired when its last use has ended.
func (l *Lifecycle) settle(x *life) {
	if x.state != Draining || x.running || x.answering || x.enabling {
		return
	}
	l.step(x, Gone)
	l.work.Go(func() { // an event may be on its way to a slow disk
		for i := range x.hook.Kubernetes {
			l.o.Watcher.Disable(x.hook, i)
		}
		l.post(l.ctx, func() { l.forget(x) })
	})
}

// forget releases a hook after its last use.
func (l *Lifecycle) forget(x *life) {
	l.leaving = slices.DeleteFunc(l.leaving, func(other *life) bool { return other == x })
	l.o.Runner.Forget(x.hook)
	l.o.Store.Forget(x.hook)
	l.o.Health.Forget(x.hook)
	l.measure()
	named := func(other *life) bool { return other.hook.Name == x.hook.Name }
	if !slices.ContainsFunc(l.lives, named) && !slices.ContainsFunc(l.leaving, named) {
		l.o.Meter.HookRemoved(x.hook.Name)
	}
	l.publish()
	if l.o.Changed != nil {
		l.o.Changed(l.Hooks())
	}
}

// setCrontabs keeps only the crontabs of enabled schedules in the clock.
func (l *Lifecycle) setCrontabs() {
	wanted := map[string]bool{}
	for _, x := range l.lives {
		if x.state == Ticking {
			for _, s := range x.hook.Schedules {
				wanted[s.Crontab] = true
			}
		}
	}
	l.o.Clock.Unregister(func(crontab string) bool { return !wanted[crontab] })
}
