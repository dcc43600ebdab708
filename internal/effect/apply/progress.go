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

// progress is what became of the requests of one run, by operation.
type progress struct {
	mu sync.Mutex
	// warnings and failed are read when all requests have been answered.
	warnings map[*effect.Patch][]string
	failed   map[*effect.Patch]bool
	// sent: the run has had its turn.
	sent bool
}

// outcome is that of an operation.
func (r *progress) outcome(p *effect.Patch) string {
	switch {
	case !r.sent:
		return run.NotSent
	case r.failed[p]:
		return run.Failed
	}
	return run.Applied
}

// fail notes that an operation has failed.
func (r *progress) fail(p *effect.Patch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = map[*effect.Patch]bool{}
	}
	r.failed[p] = true
}

// warn keeps a warning. It returns false for one that is there already, as of the retry of a request, and for too many.
func (r *progress) warn(p *effect.Patch, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.warnings[p]) == manyWarnings || slices.Contains(r.warnings[p], text) {
		return false
	}
	if r.warnings == nil {
		r.warnings = map[*effect.Patch][]string{}
	}
	r.warnings[p] = append(r.warnings[p], text)
	return true
}

// warn logs a warning. The log has the fields of the run, or the hook.
func warn(log *slog.Logger, about, text string) {
	log.Warn("The API server warns about a change", "object", about, "warning", text)
}
