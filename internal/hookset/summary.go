package hookset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// summaries are the words of upstream for kinds of bindings; %s is what they are about.
var summaries = map[hook.Kind]string{
	hook.OnSchedule: "Schedules: '%s'", hook.OnKubernetes: "Watch k8s kinds: '%s'", hook.OnValidating: "Validate k8s kinds: %s",
	hook.OnMutating: "Mutate k8s kinds: %s", hook.OnConversion: "Conversion for crds: %s", hook.OnHTTP: "HTTP: '%s'",
}

// Summary is the short text about a hook that its log record carries.
func Summary(h *hook.Hook) string {
	var parts []string
	if h.OnStartup != nil {
		parts = append(parts, fmt.Sprintf("OnStartup:%d", *h.OnStartup))
	}
	for _, kind := range hook.Kinds() {
		var about []string
		for a := range h.Bindings() {
			if a.Kind == kind {
				about = append(about, h.About(a)...)
			}
		}
		if len(about) > 0 {
			parts = append(parts, fmt.Sprintf(summaries[kind], strings.Join(distinct(about), ", ")))
		}
	}
	if h.Settings.MinInterval > 0 {
		parts = append(parts, fmt.Sprintf("Rate: %s/%d", h.Settings.MinInterval, h.Settings.Burst))
	}
	return strings.Join(parts, ", ")
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
