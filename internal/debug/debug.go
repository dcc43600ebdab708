// Package debug shows a running operator: the debug API, the status page, and the client of the command line.
//
// Callers may rely on this:
//   - A request costs what its answer needs and never holds up runs: no lock is held while a client reads, and a slow reader of
//     a tail loses entries.
//   - The formats of queues, snapshots and parameters are upstream's. YAML is made from JSON.
//   - The socket belongs to its user: mode 0600, in a directory of mode 0700 where it is alone in it.
//   - The status page shows names, counts and how runs ended, but no content of objects and no output of hooks.
//   - The HTTP status is the outcome, and an error names the next step.
//
// The API has no authentication: a client that can open the socket can read everything and change the log level.
package debug

import (
	"context"
	"log/slog"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Operator is the state of a running operator. All values are copies.
type Operator interface {
	// Hooks are the active hooks, in order, or nil while they are being loaded.
	Hooks() []*hook.Hook
	// Skipped is why a file of the hooks directory is no hook, and the next step; empty if it is one or if there is no such file.
	Skipped(name string) (reason, hint string)
	// Rejected are the hooks that made the last reload fail, each with the cause; the name is empty for causes that no single
	// hook has. Nothing that a hook has printed is in it.
	Rejected() map[string]string
	// Troubles are those that no other method shows: of the API server, the Lease, registrations and reviews. NotReady is why requests are not
	// answered; empty if they are.
	Troubles() []Trouble
	NotReady() string
	// Queues are all queues, main first, each with at most limit tasks and lanes; Queue is one of them, Lane one lane that has tasks. They cost
	// what they show.
	Queues(limit int) []Queue
	Queue(name string, limit int) (Queue, bool)
	Lane(queue, key string) (Lane, bool)
	// Binding is the state of a kubernetes binding.
	Binding(h *hook.Hook, index int) Binding
	// Progress is how far a hook has come since the start.
	Progress(h *hook.Hook) Progress
	// PausedHooks are the names of paused hooks, Parked the parked tasks, the latest first.
	PausedHooks() []string
	Parked() []ParkedTask
	// Sent are the kinds of operations that were sent, in the order of their first one, and the number of operations of further kinds.
	Sent() (all []Sent, dropped int)
	// Finalizers reads the record of finalizers. Orphans are those whose hook or binding is gone, as of the last search.
	Finalizers(context.Context) ([]Finalizer, error)
	Orphans() []Finalizer
	// Others are the other running operators with the same instance name. Heartbeats are those in the record of finalizers, of all installations.
	Others() (instance string, operators []string)
	Heartbeats(context.Context) ([]Heartbeat, error)
	// Sets are those of this installation. LostSets are those whose hook is gone, as of the last search.
	Sets(context.Context) ([]Set, error)
	LostSets() []Set
	SetMembers(context.Context, Set) ([]SetMember, error)
	// OneByOne is the place in its script because of which a hook runs once per context; empty if it does not.
	OneByOne(h *hook.Hook) string
	// Recording is the recording of a run, as JSON, by the id of the run or of its task; nil if there is none.
	Recording(run string) ([]byte, error)
	// NextTick is when a crontab is due again; zero when it is not registered.
	NextTick(crontab string) time.Time
}

// Phase is the state of a queue.
type Phase string

const (
	Idle     Phase = ""
	Waiting  Phase = "waiting"
	Running  Phase = "running"
	Sleeping Phase = "sleeping"
	Stopped  Phase = "stopped"
)

// Queue is the state of a queue.
type Queue struct {
	Name   string
	Length int
	Phase  Phase
	// Since is when the phase began, Left how long it still lasts if it is Sleeping.
	Since time.Time
	Left  time.Duration
	// Status is the phase in the words of dumps.
	Status string
	// Failures and LastError are those of the first task; in a keyed queue, with Left, those of the lane that is retried next.
	Failures  int
	LastError string
	// Tasks may be only the first ones. In a keyed queue they are the first ones of its lanes.
	Tasks []Task
	// Paused: no run begins.
	Paused bool
	// Keyed queues have Lanes with keys; their Phase is Running if any lane runs.
	Keyed       bool
	Concurrency int
	// LaneCount, Running and Delayed count lanes. Lanes may be only the first ones: those in trouble come first.
	LaneCount, Running, Delayed int
	Lanes                       []Lane
}

// Lane is the part of a keyed queue for one key.
type Lane struct {
	Key       string
	Length    int
	Phase     Phase
	Since     time.Time
	Left      time.Duration
	Failures  int
	LastError string
	// Task is the first one.
	Task Task
}

// Task waits in a queue, or runs.
type Task struct {
	// Description is that of dumps.
	Description string
	// Hook, Type and Binding are empty for work of the operator itself.
	Hook, Type, Binding string
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
}

// Options of an API and a Page. All but Profiling and HookTimeout are required. Actions may be set as long as Hooks returns nil; a Page
// has none.
type Options struct {
	Operator Operator
	Actions  Actions
	// NoOperator: the API is that of a cluster, so it is not known which hooks are active.
	NoOperator bool
	History    *history.History
	LogLevel   *LogLevel
	Version    string
	// HookTimeout is the time limit of runs of hooks without one of their own; 0 means none.
	HookTimeout time.Duration
	// Profiling reports that profiles are served.
	Profiling bool
	Log       *slog.Logger
}
