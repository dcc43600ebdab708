package apply

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// manyWarnings is how many warnings of one operation are kept and logged: a Sync may have thousands of objects.
const manyWarnings = 10

// warnings are those of the API server to the requests of one run, by operation.
type warnings struct {
	mu sync.Mutex
	// of is read when all requests have been answered.
	of map[*effect.Patch][]string
}

// add keeps a warning. It returns false for one that is there already, as of the retry of a request, and for too many.
func (w *warnings) add(p *effect.Patch, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.of[p]) == manyWarnings || slices.Contains(w.of[p], text) {
		return false
	}
	if w.of == nil {
		w.of = map[*effect.Patch][]string{}
	}
	w.of[p] = append(w.of[p], text)
	return true
}

// warn logs a warning. The log has the fields of the run, or the hook.
func warn(log *slog.Logger, about, text string) {
	log.Warn("The API server warns about a change", "object", about, "warning", text)
}
