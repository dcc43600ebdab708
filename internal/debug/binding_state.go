package debug

import (
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

// bindingReader copies the states of hooks and their kubernetes bindings.
type bindingReader interface {
	Binding(h *hook.Hook, index int) watch.State
	Deletions(h *hook.Hook, index int) Deletions
	// Progress is how far a hook has come since the start.
	Progress(h *hook.Hook) Progress
	// NextTick is when a crontab is due again; zero when it is not registered.
	NextTick(crontab string) time.Time
}

// Deletions are the objects of a binding whose clean-up has another step: the first few, the next one first, and the number of the others.
type Deletions struct {
	Next []Deletion
	More int
}

// Deletion is an object whose clean-up has another step, which is due at a time.
type Deletion struct {
	Object string
	Due    time.Time
}

// Progress is how far a hook has come since the start.
type Progress struct {
	// StartedUp reports that all onStartup runs of all hooks have succeeded.
	StartedUp bool
	// Waiting is the step of the start that the hook has not completed; empty when there is none.
	Waiting string
	// Ticking reports that its schedules are enabled, Paused that it is paused.
	Ticking, Paused bool
	// Standby reports that this replica does not lead; Leader names the replica that does, if it is known.
	Standby bool
	Leader  string
	// Elsewhere is why a Standby with shards does not run the hook, Where the next step.
	Elsewhere, Where string
}
