package hookset

import (
	"fmt"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// CheckQueues compares the kubernetes bindings of keyed queues across hooks: all bindings of such a queue have to declare the same key
// and concurrency, or events of one object could overtake each other. It returns an error for each hook that contradicts the first
// binding with a key.
func CheckQueues(hooks []*hook.Hook) []*wire.ConfigError {
	type declaration struct {
		hook  *hook.Hook
		index int
	}
	keyed := map[string]declaration{}
	for _, h := range hooks {
		for i := range h.Kubernetes {
			k := &h.Kubernetes[i]
			if _, ok := keyed[k.Queue]; !ok && k.Lanes.Keyed() {
				keyed[k.Queue] = declaration{h, i}
			}
		}
	}
	var errs []*wire.ConfigError
	for _, h := range hooks {
		var violations []wire.Violation
		for i := range h.Kubernetes {
			k := &h.Kubernetes[i]
			first, ok := keyed[k.Queue]
			if !ok || k.Lanes == first.hook.Kubernetes[first.index].Lanes {
				continue
			}
			with := &first.hook.Kubernetes[first.index]
			violations = append(violations, wire.Violation{
				Path: fmt.Sprintf("kubernetes[%d].queue", i), Binding: k.Name,
				Problem: fmt.Sprintf("declares queue %q with %s, but kubernetes[%d].queue (binding %q) of hook %q with %s",
					k.Queue, declared(k.Lanes), first.index, with.Name, first.hook.Name, declared(with.Lanes)),
				Hint: "declare the same key and concurrency in all kubernetes bindings of a queue, or use another name",
			})
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
