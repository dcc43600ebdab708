package hookset

import (
	"cmp"
	"fmt"

	"github.com/shell-operator/shell-operator/internal/hook"
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
