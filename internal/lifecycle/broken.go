package lifecycle

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
)

// Broken hooks are called again with --config after askMin, then after twice the time before, up to askMax, and at each reload.
const (
	askMin = time.Minute
	askMax = 10 * time.Minute
)

// Broken is a hook whose configuration could not be loaded.
type Broken struct {
	Name string
	// Problem has nothing that the hook has printed.
	Problem string
	// Active: the previous version of the hook stays active. Otherwise the hook is left out.
	Active bool
	// Again is when it is called again.
	Again time.Time
}

// brokenHooks are those of the active set.
type brokenHooks struct {
	all []hookset.Broken
	// delay is the time before the next call, at again. stop ends its timer; nil without one.
	delay time.Duration
	again time.Time
	stop  context.CancelFunc
}

// Broken returns the hooks whose configuration could not be loaded.
func (l *Lifecycle) Broken() []Broken { return l.view.Load().broken }

// shown describes the broken hooks.
func (b *brokenHooks) shown(active []*hook.Hook) (all []Broken) {
	for _, one := range b.all {
		all = append(all, Broken{one.Name, one.Problem(), named(active, one.Name), b.again})
	}
	return all
}

func named(hooks []*hook.Hook, name string) bool {
	return slices.ContainsFunc(hooks, func(h *hook.Hook) bool { return h.Name == name })
}

// leftOut are the names of broken hooks that have no active version.
func leftOut(broken []hookset.Broken, active []*hook.Hook) (names []string) {
	for _, b := range broken {
		if !named(active, b.Name) {
			names = append(names, b.Name)
		}
	}
	return names
}

// setBroken replaces the broken hooks, and logs new ones and new errors. After a reload the delay begins again.
func (l *Lifecycle) setBroken(all []hookset.Broken, active []*hook.Hook, reload bool) {
	b := &l.broken
	if reload {
		b.delay = 0
	}
	for _, one := range all {
		if slices.ContainsFunc(b.all, func(was hookset.Broken) bool { return was.Name == one.Name && was.Err.Error() == one.Err.Error() }) {
			continue
		}
		message := "A hook is broken and left out"
		if named(active, one.Name) {
			message = "A hook is broken, its previous version stays active"
		}
		l.o.Log.Error(message, "hook", one.Name, "error", one.Err.Error(),
			"hint", "fix the hook; it is called again with --config after a minute, then after up to 10 minutes, and at each reload")
	}
	b.all = all
}

// askLater starts the timer of the next call, unless it runs or no hook is broken.
func (l *Lifecycle) askLater() {
	b := &l.broken
	if len(b.all) == 0 && b.stop != nil {
		b.stop()
		b.stop = nil
	}
	if len(b.all) == 0 || b.stop != nil {
		return
	}
	b.delay = max(askMin, min(2*b.delay, askMax))
	b.again = time.Now().Add(b.delay)
	var ctx context.Context
	ctx, b.stop = context.WithCancel(l.ctx)
	timer := time.NewTimer(b.delay)
	l.work.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C:
			l.post(ctx, l.ask)
		case <-ctx.Done():
		}
	})
}

// ask calls the broken hooks in the background. A load in progress calls them, too.
func (l *Lifecycle) ask() {
	l.endAsk()
	if l.reloading.cancel != nil {
		return
	}
	active, left := l.Hooks(), leftOut(l.broken.all, l.Hooks())
	var names []string
	for _, b := range l.broken.all {
		names = append(names, b.Name)
	}
	l.o.Log.Info("Broken hooks are called again with --config", "hooks", strings.Join(names, ", "))
	l.inBackground(func(ctx context.Context) loaded { return l.load(ctx, active, left, names) })
}

// endAsk ends the timer.
func (l *Lifecycle) endAsk() {
	if l.broken.stop != nil {
		l.broken.stop()
		l.broken.stop = nil
	}
}
