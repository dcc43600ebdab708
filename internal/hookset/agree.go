package hookset

import (
	"fmt"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// declaration is the kubernetes binding that declares something first.
type declaration struct {
	hook  *hook.Hook
	index int
}

func (d declaration) binding() *hook.Kubernetes { return &d.hook.Kubernetes[d.index] }

// Check returns the errors of hooks that contradict each other, at most one per hook:
//   - All kubernetes bindings of a keyed queue have to declare the same key and concurrency, or events of one object could overtake each
//     other.
//   - A finalizer belongs to one hook: a run of either would remove it.
//   - If there are shards, the hooks of a queue run on the same ones.
func Check(hooks []*hook.Hook, sharded bool) []*wire.ConfigError {
	keyed, finalizers := map[string]declaration{}, map[string]declaration{}
	for _, h := range hooks {
		for i := range h.Kubernetes {
			k := &h.Kubernetes[i]
			if _, ok := keyed[k.Queue]; !ok && k.Lanes.Keyed() {
				keyed[k.Queue] = declaration{h, i}
			}
			if _, ok := finalizers[k.Finalizer]; !ok && k.Finalizer != "" {
				finalizers[k.Finalizer] = declaration{h, i}
			}
		}
	}
	unequal := map[string][]wire.Violation{}
	if sharded {
		unequal = unequalShards(hooks)
	}
	var errs []*wire.ConfigError
	for _, h := range hooks {
		violations := unequal[h.Name]
		for i := range h.Kubernetes {
			k := &h.Kubernetes[i]
			if first, ok := keyed[k.Queue]; ok && k.Lanes != first.binding().Lanes {
				violations = append(violations, wire.Violation{
					Path: fmt.Sprintf("kubernetes[%d].queue", i), Binding: k.Name,
					Problem: fmt.Sprintf("declares queue %q with %s, but kubernetes[%d].queue (binding %q) of hook %q with %s",
						k.Queue, declared(k.Lanes), first.index, first.binding().Name, first.hook.Name, declared(first.binding().Lanes)),
					Hint: "declare the same key and concurrency in all kubernetes bindings of a queue, or use another name",
				})
			}
			if first, ok := finalizers[k.Finalizer]; ok && h != first.hook {
				violations = append(violations, wire.Violation{
					Path: fmt.Sprintf("kubernetes[%d].finalizer", i), Binding: k.Name,
					Problem: fmt.Sprintf("%q is that of kubernetes[%d] (binding %q) of hook %q, too", k.Finalizer, first.index, first.binding().Name,
						first.hook.Name),
					Hint: "give each hook its own finalizer",
				})
			}
		}
		if len(violations) > 0 {
			errs = append(errs, &wire.ConfigError{Hook: h.Name, Violations: violations})
		}
	}
	return errs
}

// declared describes what a binding declares of its queue.
func declared(l hook.Lanes) string {
	if !l.Keyed() {
		return "no key"
	}
	return fmt.Sprintf("key %q and concurrency %d", l.Key, l.Concurrency)
}
