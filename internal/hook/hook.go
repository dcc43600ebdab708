// Package hook holds what a hook is: its bindings and its settings.
//
// Callers may rely on this:
//   - The values are plain. Nothing here reads files, talks to a cluster or knows a configuration format.
//   - A Hook that came out of package wire is valid: selectors parse, filters compile, names that are
//     referred to exist, defaults are filled in.
//   - Values are never changed after start-up, so they are shared between goroutines without locks.
package hook

import (
	"slices"
	"time"
)

// MainQueue is the queue of everything that names no other queue.
const MainQueue = "main"

// Hook is one executable file and all that it asked for.
type Hook struct {
	// Name is the path relative to the hooks directory. It is unique and is what users see everywhere.
	Name string
	// Path is the absolute path of the file.
	Path string
	// Interpreter runs the file when it is not executable itself: a program and its arguments, to which Path is added.
	Interpreter []string

	// OnStartup orders the run at start-up, ascending; nil means no such run.
	OnStartup   *int
	Schedules   []Schedule
	Kubernetes  []Kubernetes
	Validating  []Admission
	Mutating    []Admission
	Conversions []Conversion
	HTTP        []HTTP
	Settings    Settings

	// Contexts is the form in which this hook reads its binding contexts.
	Contexts ContextForm
}

// Command returns the program to start for the hook, and its first arguments.
func (h *Hook) Command() (program string, args []string) {
	if len(h.Interpreter) == 0 {
		return h.Path, nil
	}
	return h.Interpreter[0], append(slices.Clone(h.Interpreter[1:]), h.Path)
}

// ContextForm is the form of binding contexts.
type ContextForm int

const (
	// FullContexts carry types, objects, filter results and snapshots.
	FullContexts ContextForm = iota
	// NameContexts carry only the identity of the object concerned (the legacy format).
	NameContexts
)

// Settings limit how a hook is run.
type Settings struct {
	// MinInterval is the time in which one token returns to the rate limiter; 0 means no limit.
	MinInterval time.Duration
	// Burst is the size of the rate limiter's bucket, at least 1 when MinInterval is set.
	Burst int
	// ExecutionTimeout ends a run that takes longer. Nil means the operator's default, 0 means none.
	ExecutionTimeout *time.Duration
	// ContextsPerRun is the largest number of contexts in one run; 0 means the operator's default.
	ContextsPerRun int
}

// Binding is what bindings of every type have.
type Binding struct {
	// Name is what the hook's author calls the binding. Several bindings of a hook may share a name.
	Name string
	// Group merges contexts of neighbouring events; empty means none.
	Group string
	// Includes are the snapshots that each context of this binding carries, as indexes into
	// Hook.Kubernetes, in order, with no name twice. Groups are already expanded.
	Includes []int
}

// Schedule is a binding to a clock.
type Schedule struct {
	Binding
	// Crontab is the text as the author wrote it; ticks are shared by equal texts.
	Crontab      string
	Queue        string
	AllowFailure bool
}

// Kubernetes is a binding to changes of Kubernetes objects.
type Kubernetes struct {
	Binding
	Queue        string
	AllowFailure bool

	// APIVersion is "group/version" or "version"; empty means the server's preferred one.
	APIVersion string
	// Kind is a kind, plural or short name in any case.
	Kind string

	// Names restricts the objects' names, sorted, no duplicates; empty means all.
	Names []string
	// Labels and Fields are selectors in the API's text form; empty means all.
	Labels string
	Fields string
	// Namespaces restricts the objects' namespaces.
	Namespaces Namespaces

	// JQFilter is a jq program; empty means none. It compiles.
	JQFilter string
	// KeepFullObjects puts the whole object into events and snapshots.
	KeepFullObjects bool
	// KeepManagedFields leaves metadata.managedFields in the object. Nil means the operator's default.
	KeepManagedFields *bool

	// Added, Modified and Deleted tell which changes run the hook.
	Added, Modified, Deleted bool

	// Initial is how the objects that exist at the start reach the hook.
	Initial Initial
	// WaitForSynchronization runs the Synchronization in the main queue. When false it runs in Queue.
	WaitForSynchronization bool
	// Resync is the period in which the objects are listed anew; 0 means never.
	Resync time.Duration
}

// Initial is how objects that exist when a binding is enabled reach the hook.
type Initial int

const (
	// InitialList hands them over in one Synchronization.
	InitialList Initial = iota
	// InitialNone keeps them for snapshots only.
	InitialNone
	// InitialEvents hands over each as if it had just been added.
	InitialEvents
)

// Namespaces restricts the namespaces of a Kubernetes binding. The zero value means all.
type Namespaces struct {
	// Names is sorted and has no duplicates. It is empty when Labels is set.
	Names []string
	// Labels selects namespaces, in the API's text form; it is followed as namespaces change.
	// ByLabels tells whether it is set, because the empty selector selects all.
	Labels   string
	ByLabels bool
}

// Admission is a binding to admission reviews, validating or mutating.
type Admission struct {
	Binding
	Rules []Rule
	// ObjectLabels and NamespaceLabels restrict the requests; nil means all.
	ObjectLabels    *LabelSelector
	NamespaceLabels *LabelSelector
	MatchConditions []MatchCondition
	// FailurePolicy is "Fail", "Ignore", or empty for the operator's default.
	FailurePolicy string
	// SideEffects is "None" or "NoneOnDryRun".
	SideEffects string
	// TimeoutSeconds is between 1 and 30.
	TimeoutSeconds int
	// MatchPolicy is "Exact", "Equivalent" or empty for the API's default.
	MatchPolicy string
	// ReinvocationPolicy is "Never", "IfNeeded" or empty for the API's default. Mutating only.
	ReinvocationPolicy string
}

// Rule selects the requests that an Admission binding reviews, as in the Kubernetes API.
type Rule struct {
	APIGroups   []string
	APIVersions []string
	Resources   []string
	Operations  []string
	// Scope is "Cluster", "Namespaced", "*" or empty.
	Scope string
}

// MatchCondition is a CEL expression that a request has to satisfy.
type MatchCondition struct {
	Name       string
	Expression string
}

// LabelSelector is a selector that is handed to the API server as it is.
type LabelSelector struct {
	MatchLabels      map[string]string
	MatchExpressions []LabelRequirement
}

// LabelRequirement is one expression of a LabelSelector.
type LabelRequirement struct {
	Key      string
	Operator string
	Values   []string
}

// Conversion is a binding to conversion reviews of one custom resource.
type Conversion struct {
	Binding
	CRDName string
	Steps   []ConversionStep
}

// ConversionStep is one conversion that a hook knows how to do. The versions stay as the author wrote them.
type ConversionStep struct {
	From string
	To   string
}
