package lint

import (
	"bytes"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/script"
)

// servesNoRuns finds a hook with settings.worker that does not implement the protocol.
func servesNoRuns(s script.Source, h *hook.Hook) []Finding {
	if h.Settings.Worker == nil || len(s.Text) == 0 {
		return nil
	}
	for _, call := range []string{"hook::run", "hook.run(", "HOOK_WORKER_FD"} {
		if bytes.Contains(s.Text, []byte(call)) {
			return nil
		}
	}
	return []Finding{finding(s, 1, 1, Warning,
		"settings.worker is set, but the hook calls neither hook::run nor hook.run(), and does not read HOOK_WORKER_FD: it will not get ready",
		"remove settings.worker, or let a library serve the runs")}
}
