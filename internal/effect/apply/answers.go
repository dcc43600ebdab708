package apply

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/run"
)

// manyWarnings is how many warnings of one operation are kept and logged: a Sync may have thousands of objects.
const manyWarnings = 10

// answers are those of the API server to the requests of one run, by operation.
type answers struct {
	mu sync.Mutex
	// warnings and failed are read when all requests have been answered.
	warnings map[*effect.Patch][]string
	failed   map[*effect.Patch]bool
	// sent: the run has had its turn.
	sent bool
}

// outcome is that of an operation.
func (a *answers) outcome(p *effect.Patch) string {
	switch {
	case !a.sent:
		return run.NotSent
	case a.failed[p]:
		return run.Failed
	}
	return run.Applied
}

// fail notes that an operation has failed.
func (a *answers) fail(p *effect.Patch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		a.failed = map[*effect.Patch]bool{}
	}
	a.failed[p] = true
}

// warn keeps a warning. It returns false for one that is there already, as of the retry of a request, and for too many.
func (a *answers) warn(p *effect.Patch, text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.warnings[p]) == manyWarnings || slices.Contains(a.warnings[p], text) {
		return false
	}
	if a.warnings == nil {
		a.warnings = map[*effect.Patch][]string{}
	}
	a.warnings[p] = append(a.warnings[p], text)
	return true
}

// warn logs a warning. The log has the fields of the run, or the hook.
func warn(log *slog.Logger, about, text string) {
	log.Warn("The API server warns about a change", "object", about, "warning", text)
}
