package lint

import (
	"bytes"
	"regexp"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/script"
)

// Hook finds likely mistakes of a hook whose configuration is valid. ContextsPerRun is the
// operator's default.
func Hook(s script.Source, h *hook.Hook, contextsPerRun int) []Finding {
	var found []Finding
	if h.Contexts == hook.NameContexts {
		found = append(found, finding(s, 0, 0, Warning, "the configuration has no version, which means the old version 0",
			"add configVersion: v1; the reference of the configuration lists the differences"))
	}
	if merges(h, contextsPerRun) {
		if line := readsFirstOnly(s); line > 0 {
			found = append(found, finding(s, line, 0, Warning, "the hook seems to read only the first binding context, but several events may come in one run",
				"go through the whole array, or set settings.contextsPerRun: 1"))
		}
	}
	return found
}

// merges reports whether one run may get several contexts.
func merges(h *hook.Hook, contextsPerRun int) bool {
	if h.Settings.ContextsPerRun > 0 {
		contextsPerRun = h.Settings.ContextsPerRun
	}
	if contextsPerRun == 1 {
		return false
	}
	groups := map[string]bool{}
	for _, b := range h.Schedules {
		groups[b.Group] = true
	}
	for _, b := range h.Kubernetes {
		// A Synchronization comes alone, or as the one context of its group.
		if b.Added || b.Modified || b.Deleted {
			groups[b.Group] = true
		}
	}
	// One group becomes one context, whatever happens.
	return groups[""] || len(groups) > 1
}

var (
	// first is how hooks take the first context: in jq, in Python, in others.
	first = regexp.MustCompile(`(?m)^[^#\n]*(\.\[0\]|context[s]?\[0\]|json\.load\([^\n]*\)\[0\])`)
	// others are the signs that a hook reads more than that.
	others = regexp.MustCompile(`\.\[\]|\blength\b|\blen\(|\bmap\(|\brange\(|\[1\]|\.\[\$|\.\["?\$|\.\[-1\]|\bfor\s+\w+\s+in\s+[^\n]*context|\bselect\(|\breduce\b|\bforeach\b|context::|hook::run`)
)

// readsFirstOnly returns the line where a hook reads the first context, if there is no sign that it reads others.
func readsFirstOnly(s script.Source) int {
	if s.IsBinary() {
		return 0
	}
	at := first.FindIndex(s.Text)
	if at == nil || others.Match(s.Text) {
		return 0
	}
	return 1 + bytes.Count(s.Text[:at[1]], []byte("\n"))
}
