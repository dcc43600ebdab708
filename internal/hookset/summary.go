package hookset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Summary is the short text about a hook that its log record carries.
func Summary(h *hook.Hook) string {
	var parts []string
	if h.OnStartup != nil {
		parts = append(parts, fmt.Sprintf("OnStartup:%d", *h.OnStartup))
	}
	add := func(label string, values []string, quoted bool) {
		if len(values) == 0 {
			return
		}
		text := strings.Join(distinct(values), ", ")
		if quoted {
			text = "'" + text + "'"
		}
		parts = append(parts, label+": "+text)
	}
	add("Schedules", names(h.Schedules, func(s hook.Schedule) []string { return []string{s.Crontab} }), true)
	add("Watch k8s kinds", names(h.Kubernetes, func(k hook.Kubernetes) []string { return []string{k.Kind} }), true)
	add("Validate k8s kinds", names(h.Validating, resources), false)
	add("Mutate k8s kinds", names(h.Mutating, resources), false)
	add("Conversion for crds", names(h.Conversions, func(c hook.Conversion) []string { return []string{c.CRDName} }), false)
	add("HTTP", names(h.HTTP, func(b hook.HTTP) []string { return []string{b.Method + " " + b.Path} }), true)
	if h.Settings.MinInterval > 0 {
		parts = append(parts, fmt.Sprintf("Rate: %s/%d", h.Settings.MinInterval, h.Settings.Burst))
	}
	return strings.Join(parts, ", ")
}

func names[T any](list []T, of func(T) []string) []string {
	var all []string
	for _, item := range list {
		all = append(all, of(item)...)
	}
	return all
}

func resources(a hook.Admission) []string {
	return names(a.Rules, func(r hook.Rule) []string { return r.Resources })
}

// distinct drops repetitions and keeps the order.
func distinct(values []string) []string {
	var kept []string
	for _, v := range values {
		if !slices.Contains(kept, v) {
			kept = append(kept, v)
		}
	}
	return kept
}
