package debug

import (
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// bindingReader copies the states of hooks and their kubernetes bindings.
type bindingReader interface {
	Binding(h *hook.Hook, index int) Binding
	// Progress is how far a hook has come since the start.
	Progress(h *hook.Hook) Progress
	// NextTick is when a crontab is due again; zero when it is not registered.
	NextTick(crontab string) time.Time
}

// Changes counts changes of a set of objects.
type Changes struct{ Added, Modified, Deleted int }

// Binding is the state of a kubernetes binding.
type Binding struct {
	Objects event.Snapshot
	// Total are the changes since the start, Recent those since the hook last ran.
	Total, Recent Changes
	// Complete reports that the initial list is in, Unlocked that events are delivered; Held counts buffered events.
	Complete, Unlocked bool
	Held               int
	// FilterFails is the number of objects for which the filter fails; FilterError is one of its errors.
	FilterFails int
	FilterError string
	// Troubles are the requests that fail now, each with a remedy. Finalizing is why objects lack the finalizer of the binding, or keep it.
	Troubles, Finalizing []string
	// Absent are namespaces of the binding that did not exist when it was enabled, and of which it has no objects.
	Absent []string
	// Deletions are the objects whose clean-up has another step, the next one first; no more than a few. DeletionsTotal counts all.
	Deletions      []Deletion
	DeletionsTotal int
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
	// Ticking reports that its schedules are enabled.
	Ticking bool
	// Standby reports that this replica does not lead; Leader names the replica that does, if it is known.
	Standby bool
	Leader  string
	// Elsewhere is why a Standby with shards does not run the hook, Where the next step.
	Elsewhere, Where string
}
