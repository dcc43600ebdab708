package lint

import (
	"fmt"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/script"
)

// Hook finds likely mistakes of a hook whose configuration is valid. Contexts are what its script reads of them, with paths below
// the hooks directory.
func Hook(s script.Source, h *hook.Hook, contexts script.Reading) []Finding {
	var found []Finding
	if h.Contexts == hook.NameContexts {
		found = append(found, finding(s, 0, 0, Warning, "the configuration has no version, which means the old version 0",
			"add configVersion: v1; the reference of the configuration lists the differences"))
	}
	add := func(at script.Place, level Level, message, hint string) {
		f := finding(s, at.Line, at.Column, level, message, hint)
		if at.Path != "" && at.Path != h.Name {
			f.Path = at.Path
		}
		found = append(found, f)
	}
	data, readsData := contexts.EventData()
	switch {
	case h.Settings.OneByOne:
		add(data, Note, "runs once per context: the script reads event data of the first one only",
			"settings.contextsPerRun: 0 delivers all contexts of a run")
	case h.Settings.ContextsPerRun == 1 || !h.Merges() || len(contexts.Members) == 0:
	case contexts.FirstOnly() && !contexts.Reads("snapshots"):
		add(contexts.Members[0].Place, Warning, "the hook reads only the first binding context, but several events may come in one run",
			"go through the whole array, or set settings.contextsPerRun: 1")
	case readsData && !contexts.FirstOnly():
		add(contexts.Others, Note, "gets all contexts of a run: this line reads more than the first one",
			"if it reads only the first context, set settings.contextsPerRun: 1")
	}
	for i := range h.Kubernetes {
		if k := &h.Kubernetes[i]; k.KeyOfSecret() {
			add(script.Place{}, Warning,
				fmt.Sprintf("the queue key of binding %q is a value of Secrets, which the hook gets in HOOK_QUEUE_KEY; elsewhere its hash is shown",
					k.Name),
				"use metadata, such as a label, as the key")
		}
	}
	return append(found, wakesItself(s, h)...)
}
