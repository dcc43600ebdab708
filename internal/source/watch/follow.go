package watch

import "github.com/shell-operator/shell-operator/internal/source/stream"

// follower subscribes a binding to the namespaces that match its label selector.
//
// It is a consumer of the stream of namespaces. Each namespace gets a stream of its own; over HTTP/2 they share a connection.
type follower struct {
	// The monitor receives the outcomes of requests.
	*monitor
	watcher *Watcher
	base    stream.Scope
	// subs is by namespace. Only the goroutine of the stream of namespaces uses it.
	subs map[string][]*stream.Subscription
}

var _ stream.Consumer = (*follower)(nil)

func (f *follower) Needs() stream.Needs                                 { return stream.Needs{} }
func (f *follower) Held() func(key, uid, version string) *stream.Object { return nil }

func (f *follower) Replace(sub *stream.Subscription, entries []stream.Digested) {
	selected := map[string]bool{}
	for _, e := range entries {
		selected[e.Object.Name] = true
		f.add(sub, e.Object.Name)
	}
	for namespace := range f.subs {
		if !selected[namespace] {
			f.drop(namespace)
		}
	}
	// After the subscriptions to the namespaces: the initial list consists of those.
	f.monitor.update(func() { f.monitor.arrived(sub) })
}

func (f *follower) Change(sub *stream.Subscription, e stream.Digested) { f.add(sub, e.Object.Name) }
func (f *follower) Remove(_ *stream.Subscription, o *stream.Object)    { f.drop(o.Name) }

func (f *follower) add(sub *stream.Subscription, namespace string) {
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
