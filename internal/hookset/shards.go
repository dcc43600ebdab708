package hookset

import (
	"cmp"
	"fmt"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// unequalShards returns, by the name of the hook, the bindings whose queue has bindings of another hook with another shardBy: on some
// shards only one of the hooks would run, and the queue would order nothing. The queue main has hooks of all kinds.
func unequalShards(hooks []*hook.Hook) map[string][]wire.Violation {
	first := map[string]declaration{}
	found := map[string][]wire.Violation{}
	for _, h := range hooks {
		for a, b := range h.Bindings() {
			if b.Queue == "" || b.Queue == hook.MainQueue {
				continue
			}
			at := fmt.Sprintf("%s[%d].queue", a.Kind, a.Index)
			other, ok := first[b.Queue]
			if !ok {
				first[b.Queue] = declaration{hook: h, at: at, name: b.Name}
				continue
			}
			if other.hook.Settings.ShardBy != h.Settings.ShardBy {
				found[h.Name] = append(found[h.Name], wire.Violation{
					Path: at, Binding: b.Name,
					Problem: fmt.Sprintf("is %q and settings.shardBy is %s, but %s is the same queue with settings.shardBy %s",
						b.Queue, shardBy(h), other, shardBy(other.hook)),
					Hint: "use another queue, or the same settings.shardBy in all hooks of a queue",
				})
			}
		}
	}
	return found
}

func shardBy(h *hook.Hook) string { return cmp.Or(string(h.Settings.ShardBy), "not set") }

// ShardWarnings returns what may surprise in a hook that is divided among shards.
func ShardWarnings(h *hook.Hook) (warnings []wire.Warning) {
	by := h.Settings.ShardBy
	if by == shard.None {
		return nil
	}
	for a, b := range h.Bindings() {
		at := fmt.Sprintf("%s[%d] (binding %q)", a.Kind, a.Index, b.Name)
		for n, i := range b.Includes {
			k := fmt.Sprintf("kubernetes[%d] (binding %q)", i, h.Kubernetes[i].Name)
			switch {
			case a.Kind.Caller() != "":
				warnings = append(warnings, wire.Warning{Path: at, Problem: fmt.Sprintf(
					"includes the snapshot of %s of a hook with settings.shardBy: with --shards all replicas keep all its objects, to answer requests",
					k)})
			case by == shard.ByObject && n == 0:
				warnings = append(warnings, wire.Warning{Path: at, Problem: fmt.Sprintf(
					"includes the snapshot of %s, and settings.shardBy is object: with --shards it has any part of the objects, not those that belong "+
						"together; use namespace", k)})
			}
		}
	}
	return warnings
}
