package hookset

import (
	"fmt"
	"slices"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// CheckFinalizers returns an error for each hook with a finalizer of an earlier one: a run of either hook would remove it.
func CheckFinalizers(hooks []*hook.Hook) []*wire.ConfigError {
	type declaration struct {
		hook  *hook.Hook
		index int
	}
	declared := map[string]declaration{}
	var errs []*wire.ConfigError
	for _, h := range hooks {
		var violations []wire.Violation
		for i := range h.Kubernetes {
			k := &h.Kubernetes[i]
			if k.Finalizer == "" {
				continue
			}
			first, ok := declared[k.Finalizer]
			switch {
			case !ok:
				declared[k.Finalizer] = declaration{h, i}
			case first.hook != h:
				violations = append(violations, wire.Violation{
					Path: fmt.Sprintf("kubernetes[%d].finalizer", i), Binding: k.Name,
					Problem: fmt.Sprintf("%q is that of kubernetes[%d] (binding %q) of hook %q, too", k.Finalizer, first.index, first.hook.Kubernetes[first.index].Name, first.hook.Name),
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

// Check returns the errors of hooks that contradict each other, at most one per hook.
func Check(hooks []*hook.Hook) []*wire.ConfigError {
	errs := CheckQueues(hooks)
	for _, err := range CheckFinalizers(hooks) {
		if i := slices.IndexFunc(errs, func(e *wire.ConfigError) bool { return e.Hook == err.Hook }); i >= 0 {
			errs[i].Violations = append(errs[i].Violations, err.Violations...)
			continue
		}
		errs = append(errs, err)
	}
	return errs
}
