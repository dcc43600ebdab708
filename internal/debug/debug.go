// Package debug answers the questions that people have about a running operator: the debug API, the status page, and the
// client that the command line uses.
//
// Callers may rely on this:
//   - A question costs what its answer is worth, and never holds up runs: nothing here waits while something is locked,
//     and who reads slowly misses entries of a tail.
//   - The formats of queues, snapshots and parameters are those that scripts have known for years. YAML is made from JSON.
//   - The socket belongs to its user: mode 0600, and where it is alone in its folder, that has mode 0700.
//   - The status page shows names, counts and how runs ended, but nothing that an object has or a hook has printed.
//   - Whoever asks gets an HTTP status that tells the truth, and an error that says what to do.
//
// The API has no password: who may open the socket may see everything and change the log level.
package debug

import (
	"log/slog"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Operator is what there is to know of a running operator. All values are copies.
type Operator interface {
	// Hooks are those that were loaded, in order, or nil while they are being loaded.
	Hooks() []*hook.Hook
	// NotReloaded is why the hooks are not those of the files in the hooks directory, or empty. Nothing that a hook has
	// printed is in it.
	NotReloaded() string
	// Queues are all queues, main first, each with as many tasks as limit allows; below 0 it allows all.
	Queues(limit int) []Queue
	// Binding is what a kubernetes binding of a hook sees.
	Binding(h *hook.Hook, index int) Binding
	// Progress is how far a hook has come since the start.
	Progress(h *hook.Hook) Progress
	// NextTick is when a crontab is due again; zero when it is not in use.
	NextTick(crontab string) time.Time
}

// Phase is what a queue does.
type Phase string

const (
	Idle     Phase = ""
	Waiting  Phase = "waiting"
	Running  Phase = "running"
	Sleeping Phase = "sleeping"
	Stopped  Phase = "stopped"
)

// Queue is a queue at one moment.
type Queue struct {
	Name   string
	Length int
	Phase  Phase
	// Since is when the phase began, Left how long it still lasts if it is Sleeping.
	Since time.Time
	Left  time.Duration
	// Status is the phase in the words of dumps.
	Status string
	// Failures and LastError are those of the first task.
	Failures  int
	LastError string
	// Tasks may be only the first ones.
	Tasks []Task
}

// Task waits in a queue, or runs.
type Task struct {
	// Description is that of dumps.
	Description string
	// Hook, Type and Binding are empty for work of the operator itself.
	Hook, Type, Binding string
}

// Changes counts what happened to a set of objects.
type Changes struct{ Added, Modified, Deleted int }

// Binding is what a kubernetes binding sees at one moment.
type Binding struct {
	Objects event.Snapshot
	// Total are the changes since the start, Recent those since the hook was run.
	Total, Recent Changes
	// Complete tells that the first set has been there, Unlocked that events leave, and Held how many do not.
	Complete, Unlocked bool
	Held               int
	// FilterFails is the number of objects for which the filter fails; FilterError is one of its errors.
	FilterFails int
	FilterError string
	// Troubles are the requests that fail now, each with what to do.
	Troubles []string
}

// Progress is how far a hook has come since the start.
type Progress struct {
	// StartedUp tells that all onStartup runs of all hooks have succeeded.
	StartedUp bool
	// Waiting is the step of the start that the hook has not completed; empty when there is none.
	Waiting string
	// Ticking tells that its schedules are enabled.
	Ticking bool
	// Standby tells that this replica runs no hooks, but those that answer; Leader names the one that does, if it is known.
	Standby bool
	Leader  string
}

// Options of an API and a Page. All but Profiling are required.
type Options struct {
	Operator   Operator
	History    *history.History
	Parameters *Parameters
	Version    string
	// Profiling tells that there is a page with profiles.
	Profiling bool
	Log       *slog.Logger
}
