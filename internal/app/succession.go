package app

import (
	"reflect"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
)

// succession is how one set of hooks follows another.
type succession struct {
	// hooks is the new set. Hooks that are as they were are the old values.
	hooks []*hook.Hook
	// replaced are the old hooks that have changed or gone, with what became of them.
	replaced map[*hook.Hook]run.Successor
	// names of the hooks that came, changed and went.
	added, changed, removed []string
	new                     []*hook.Hook
}

// fresh are the hooks that were not there before.
func (s *succession) fresh() []*hook.Hook { return s.new }

// succeed compares hooks by name. A hook whose configuration is the same is the same hook, whatever else its file says:
// that counts from its next run on.
func succeed(old, loaded []*hook.Hook) succession {
	s := succession{replaced: map[*hook.Hook]run.Successor{}}
	before := map[string]*hook.Hook{}
	for _, h := range old {
		before[h.Name] = h
	}
	for _, h := range loaded {
		was := before[h.Name]
		delete(before, h.Name)
		switch {
		case was == nil:
			s.added, s.new = append(s.added, h.Name), append(s.new, h)
		case reflect.DeepEqual(was, h):
			h = was
		default:
			s.changed = append(s.changed, h.Name)
			s.replaced[was] = run.Successor{Hook: h, Binding: bindings(was, h)}
		}
		s.hooks = append(s.hooks, h)
	}
	for _, h := range old {
		if before[h.Name] != nil {
			s.removed = append(s.removed, h.Name)
			s.replaced[h] = run.Successor{}
		}
	}
	return s
}

// nothing tells that the two sets are the same.
func (s *succession) nothing() bool { return len(s.added)+len(s.replaced) == 0 }

// held are the hooks that may not run while they are replaced.
func (s *succession) held() []*hook.Hook {
	var all []*hook.Hook
	for h := range s.replaced {
		all = append(all, h)
	}
	return all
}

// bindings returns where each binding of a hook is in its successor. A binding is the same if it is called the same and
// wants the same; which snapshots it includes does not matter.
func bindings(old, now *hook.Hook) func(event.Type, int) (int, bool) {
	kubernetes := pair(old.Kubernetes, now.Kubernetes, func(a, b hook.Kubernetes) bool {
		a.Includes, b.Includes = nil, nil
		return reflect.DeepEqual(a, b)
	})
	schedules := pair(old.Schedules, now.Schedules, func(a, b hook.Schedule) bool {
		a.Includes, b.Includes = nil, nil
		return reflect.DeepEqual(a, b)
	})
	admission := func(a, b hook.Admission) bool { return a.Name == b.Name }
	places := map[event.Type][]int{
		event.Synchronization: kubernetes, event.Change: kubernetes, event.Tick: schedules,
		event.Validating: pair(old.Validating, now.Validating, admission),
		event.Mutating:   pair(old.Mutating, now.Mutating, admission),
		event.Conversion: pair(old.Conversions, now.Conversions, func(a, b hook.Conversion) bool { return a.Name == b.Name && a.CRDName == b.CRDName }),
		event.HTTP:       pair(old.HTTP, now.HTTP, func(a, b hook.HTTP) bool { return a.Method == b.Method && a.Path == b.Path }),
	}
	return func(typ event.Type, index int) (int, bool) {
		if typ == event.Startup {
			return 0, now.OnStartup != nil
		}
		if at := places[typ]; index < len(at) && at[index] >= 0 {
			return at[index], true
		}
		return 0, false
	}
}

// pair finds for each binding the first equal one that no other has taken, or -1.
func pair[T any](old, now []T, same func(a, b T) bool) []int {
	taken := make([]bool, len(now))
	places := make([]int, len(old))
	for i := range old {
		places[i] = -1
		for j := range now {
			if !taken[j] && same(old[i], now[j]) {
				places[i], taken[j] = j, true
				break
			}
		}
	}
	return places
}
