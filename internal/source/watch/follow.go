package watch

import (
	"context"

	"github.com/shell-operator/shell-operator/internal/jq"
)

// follower subscribes a binding to the namespaces that match its label selector.
//
// It is a consumer of the stream of namespaces. Each namespace gets a stream of its own; over HTTP/2 they share a connection.
type follower struct {
	watcher *Watcher
	monitor *monitor
	base    scope
	// subs is by namespace. Only the goroutine of the stream of namespaces uses it.
	subs map[string][]*subscription
}

var _ consumer = (*follower)(nil)

func (f *follower) needs() needs                                         { return needs{} }
func (f *follower) holding() func(key, uid, version string) *object      { return nil }
func (f *follower) filter(context.Context, *object, *jq.Object) filtered { return filtered{} }

func (f *follower) replace(sub *subscription, entries []digested) {
	selected := map[string]bool{}
	for _, e := range entries {
		selected[e.object.name] = true
		f.add(sub, e.object.name)
	}
	for namespace := range f.subs {
		if !selected[namespace] {
			f.drop(namespace)
		}
	}
	// After the subscriptions to the namespaces: the initial list consists of those.
	f.monitor.update(func() { f.monitor.arrived(sub) })
}

func (f *follower) change(sub *subscription, e digested) { f.add(sub, e.object.name) }
func (f *follower) remove(_ *subscription, o *object)    { f.drop(o.name) }

func (f *follower) answered(sub *subscription, verb string, err error) {
	f.monitor.answered(sub, verb, err)
}

func (f *follower) processed(*subscription, uint64, bool) {}

func (f *follower) dropped(sub *subscription, changes int) { f.monitor.dropped(sub, changes) }

func (f *follower) add(sub *subscription, namespace string) {
	if f.subs[namespace] != nil {
		return
	}
	scopes := narrow(f.base, []string{namespace}, f.monitor.binding.Names)
	f.subs[namespace] = f.watcher.subscribe(f.monitor, f.monitor, plan{scopes: scopes}, sub, !f.monitor.binding.Optional)
}

func (f *follower) drop(namespace string) {
	for _, sub := range f.subs[namespace] {
		f.watcher.abandon(f.monitor, sub)
	}
	delete(f.subs, namespace)
}
