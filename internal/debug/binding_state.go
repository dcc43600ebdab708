package debug

import (
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

// bindingReader copies the states of hooks and their kubernetes bindings.
type bindingReader interface {
	Binding(h *hook.Hook, index int) watch.State
	// Deletions are the objects of a binding whose clean-up has another step, the next one first.
	Deletions(h *hook.Hook, index int) []pending.Deletion
	// Progress is how far a hook has come since the start.
	Progress(h *hook.Hook) Progress
	// NextTick is when a crontab is due again; zero when it is not registered.
	NextTick(crontab string) time.Time
}

// Progress is how far a hook has come since the start.
type Progress struct {
	// StartedUp reports that all onStartup runs of all hooks have succeeded.
	StartedUp bool
	// Waiting is the step of the start that the hook has not completed; empty when there is none.
	Waiting string
	// Ticking reports that its schedules are enabled, Paused that it is paused.
	Ticking, Paused bool
	// Standby reports that this replica does not run the hook. Elsewhere is why, Where the next step.
	Standby          bool
	Elsewhere, Where string
}
