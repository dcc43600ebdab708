package watch

import (
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

func isNamespaces(res kube.Resource) bool { return res.Group == "" && res.Resource == "namespaces" }

// division is what a shard has of the objects of a binding. The zero value means an operator without shards.
type division struct {
	// rests: the hook runs on another shard. Only requests need the binding here.
	rests bool
	// own are the objects that belong to the shard, stream those that the binding has, and that are in its snapshots.
	own, stream stream.Part
}

// events returns the objects in the events of the binding and in its Synchronization: the binding may have others.
func (d division) events() stream.Part {
	if d.stream == d.own {
		return stream.Everything
	}
	return d.own
}

// shardPass withholds changes of objects that belong to other shards.
type shardPass struct{ *monitor }

func (p shardPass) decide(c *Change) (string, bool) {
	return "another shard has the object", p.division.events().Has(c.Object)
}

// standbyPass withholds all changes while this replica, or the hook on this shard, rests: for days if need be.
type standbyPass struct {
	*monitor
	resting bool
}

func (p *standbyPass) decide(*Change) (string, bool) {
	if p.division.rests {
		return "the hook runs on shard 0", !p.resting
	}
	return "this replica is on standby", !p.resting
}

// rest decides whether the objects follow the cluster without events.
func (m *monitor) rest(resting bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.standby != nil {
		m.standby.resting = resting || m.division.rests
	}
}

// divide returns the division of a binding among shards.
func divide(s shard.Shard, h *hook.Hook, res kube.Resource) (d division) {
	by := h.Settings.ShardBy
	if d.rests = !s.Runs(by); d.rests || !s.Divided() || by == shard.None {
		return d
	}
	d.own = stream.Part{Part: s.Part(by), Named: isNamespaces(res)}
	if by != shard.ByNamespace || res.Namespaced || d.own.Named {
		d.stream = d.own
	}
	return d
}

// Take gives a Watcher with Options.Shards its shard. Enable, called again for a hook, enables the bindings that only its runs need.
func (w *Watcher) Take(s shard.Shard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shard = s
	for _, m := range w.monitors {
		m.take(s)
	}
}

// isMissing reports whether this replica needs a binding, for runs of the hook or for requests, and does not have it, or has it muted.
func (w *Watcher) isMissing(h *hook.Hook, index int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := address{h, index}
	return (w.monitors[a] == nil || w.monitors[a].at() == muted) && (w.shard.Runs(h.Settings.ShardBy) || h.Answering(index))
}

func (w *Watcher) ownShard() shard.Shard {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shard
}

// take sets what the binding has, and what runs of the hook get of it.
func (m *monitor) take(s shard.Shard) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shard = s
	m.division = divide(s, m.hook, m.resource)
}

// shardOf returns the shard of an object, whose uid may be unknown: Everywhere without shards. It requires mu.
func (m *monitor) shardOf(o *stream.Object) int {
	by := m.division.own.By()
	if by == shard.None {
		return Everywhere
	}
	if by == shard.ByObject && o.UID == "" {
		return Unknown
	}
	for i := range m.shard.Count {
		if (stream.Part{Part: shard.Shard{Index: i, Count: m.shard.Count}.Part(by), Named: m.division.own.Named}).Has(o) {
			return i
		}
	}
	return Unknown
}
