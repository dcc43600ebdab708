package hookset

import (
	"cmp"
	"fmt"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// declaration is the binding that has a queue, a finalizer, a name or a route first.
type declaration struct {
	hook *hook.Hook
	// at is the place in its configuration, name the name of the binding.
	at, name string
	lanes    hook.Lanes
}

func (d declaration) String() string {
	return fmt.Sprintf("%s (binding %q) of hook %q", d.at, d.name, d.hook.Name)
}

// Check returns the errors of hooks that contradict each other, at most one per hook:
//   - All kubernetes bindings of a keyed queue have to declare the same key and concurrency, or events of one object could overtake each
//     other.
//   - A finalizer belongs to one hook: a run of either would remove it.
//   - A request runs one hook: names of webhooks and routes are unique.
//   - If there are shards, the hooks of a queue run on the same ones.
//   - All webhooks of a kind are one object, which etcd stores up to a limit: a dry run of the API server does not show it.
func Check(hooks []*hook.Hook, sharded bool) []*wire.ConfigError {
	keyed, finalizers := map[string]declaration{}, map[string]declaration{}
	for _, h := range hooks {
		for i := range h.Kubernetes {
			k := &h.Kubernetes[i]
			if _, ok := keyed[k.Queue]; !ok && k.Lanes.Keyed() {
				keyed[k.Queue] = declaration{h, fmt.Sprintf("kubernetes[%d].queue", i), k.Name, k.Lanes}
			}
			if _, ok := finalizers[k.Finalizer]; !ok && k.Finalizer != "" {
				finalizers[k.Finalizer] = declaration{hook: h, at: fmt.Sprintf("kubernetes[%d]", i), name: k.Name}
			}
		}
	}
	queues, servers, stored := map[string]declaration{}, map[server]declaration{}, map[hook.Kind]int{}
	var errs []*wire.ConfigError
	for _, h := range hooks {
		violations := append(oversized(h, stored), taken(h, servers)...)
		if sharded {
			violations = append(violations, unequalShards(h, queues)...)
		}
		for i := range h.Kubernetes {
			k := &h.Kubernetes[i]
			if first, ok := keyed[k.Queue]; ok && k.Lanes != first.lanes {
				violations = append(violations, wire.Violation{
					Path: fmt.Sprintf("kubernetes[%d].queue", i), Binding: k.Name,
					Problem: fmt.Sprintf("declares queue %q with %s, but %s with %s", k.Queue, declared(k.Lanes), first, declared(first.lanes)),
					Hint:    "declare the same key and concurrency in all kubernetes bindings of a queue, or use another name",
				})
			}
			if first, ok := finalizers[k.Finalizer]; ok && h != first.hook {
				violations = append(violations, wire.Violation{
					Path: fmt.Sprintf("kubernetes[%d].finalizer", i), Binding: k.Name,
					Problem: fmt.Sprintf("%q is that of %s, too", k.Finalizer, first),
					Hint:    "give each hook its own finalizer",
				})
			}
		}
		if len(violations) > 0 {
			errs = append(errs, &wire.ConfigError{Hook: h.Name, Violations: violations})
		}
	}
	return errs
}

// mostStored is the limit of etcd for an object, unless it is configured.
const mostStored = 1536 << 10

// oversized returns the binding with which the conditions of its kind exceed the limit. Stored are the bytes of the hooks before.
func oversized(h *hook.Hook, stored map[hook.Kind]int) (found []wire.Violation) {
	for a, b := range h.Bindings() {
		var conditions []hook.MatchCondition
		switch a.Kind {
		case hook.OnValidating:
			conditions = h.Validating[a.Index].MatchConditions
		case hook.OnMutating:
			conditions = h.Mutating[a.Index].MatchConditions
		}
		before := stored[a.Kind]
		for _, c := range conditions {
			stored[a.Kind] += len(c.Name) + len(c.Expression)
		}
		if size := stored[a.Kind]; before <= mostStored && size > mostStored {
			found = append(found, wire.Violation{
				Path: fmt.Sprintf("%s[%d].matchConditions", a.Kind, a.Index), Binding: b.Name,
				Problem: fmt.Sprintf("and those before it, in all hooks, have %d bytes: they are stored as one object, which has at most %d",
					size, mostStored),
				Hint: "shorten the expressions, or let the hook decide",
			})
		}
	}
	return found
}

// server identifies the requests of a binding: by the name of its webhook, or by the route.
type server struct {
	kind hook.Kind
	of   string
}

// taken returns the bindings of a hook whose requests another hook gets. First has the first binding for each request.
func taken(h *hook.Hook, first map[server]declaration) (found []wire.Violation) {
	for a, b := range h.Bindings() {
		key, problem, hint := server{a.Kind, b.Name}, "is also the name of %s", "give each a unique name"
		v := wire.Violation{Path: fmt.Sprintf("%s[%d].name", a.Kind, a.Index), Binding: b.Name}
		switch a.Kind {
		case hook.OnHTTP:
			v.Path, key.of = fmt.Sprintf("http[%d].path", a.Index), h.HTTP[a.Index].Route()
			problem, hint = "answers the same requests as %s", "one request runs one hook: give one of them another method or path"
		case hook.OnValidating, hook.OnMutating:
		default:
			continue
		}
		if other, is := first[key]; is {
			v.Problem, v.Hint = fmt.Sprintf(problem, other), hint
			found = append(found, v)
		} else {
			first[key] = declaration{hook: h, at: fmt.Sprintf("%s[%d]", a.Kind, a.Index), name: b.Name}
		}
	}
	return found
}

// unequalShards returns the bindings of a hook whose queue has bindings of a hook with another shardBy: on some shards only one of the
// hooks would run, and the queue would order nothing. The queue main has hooks of all kinds. First has the first binding of each queue.
func unequalShards(h *hook.Hook, first map[string]declaration) (found []wire.Violation) {
	for a, b := range h.Bindings() {
		if b.Queue == "" || b.Queue == hook.MainQueue {
			continue
		}
		at := fmt.Sprintf("%s[%d].queue", a.Kind, a.Index)
		other, ok := first[b.Queue]
		switch {
		case !ok:
			first[b.Queue] = declaration{hook: h, at: at, name: b.Name}
		case other.hook.Settings.ShardBy != h.Settings.ShardBy:
			found = append(found, wire.Violation{
				Path: at, Binding: b.Name,
				Problem: fmt.Sprintf("is %q and settings.shardBy is %s, but %s is the same queue with settings.shardBy %s",
					b.Queue, shardBy(h), other, shardBy(other.hook)),
				Hint: "use another queue, or the same settings.shardBy in all hooks of a queue",
			})
		}
	}
	return found
}

func shardBy(h *hook.Hook) string { return cmp.Or(string(h.Settings.ShardBy), "not set") }

// declared describes what a binding declares of its queue.
func declared(l hook.Lanes) string {
	if !l.Keyed() {
		return "no key"
	}
	return fmt.Sprintf("key %q and concurrency %d", l.Key, l.Concurrency)
}
