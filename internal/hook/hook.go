// Package hook defines hooks: their bindings and settings, as plain values.
//
// Callers may rely on this:
//   - Nothing here reads files, talks to a cluster or knows a configuration format.
//   - A Hook from package wire is valid: selectors parse, filters compile, referenced names exist, defaults are set.
//   - Values are immutable once loaded, so goroutines share them without locks.
package hook

import (
	"slices"
	"time"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/shard"
)

// Hook is an executable file and its configuration.
type Hook struct {
	// Name is the path relative to the hooks directory. It is unique and identifies the hook everywhere.
	Name string
	// Path is the absolute path of the file.
	Path string
	// Interpreter runs a file that is not executable: a program and its arguments, to which Path is appended.
	Interpreter []string
	// ShellLibrary reports that the script lets the shell library read its contexts: its runs get the heads of them.
	ShellLibrary bool

	// OnStartup is the ascending order of the run at startup; nil means no such run.
	OnStartup   *int
	Schedules   []Schedule
	Kubernetes  []Kubernetes
	Validating  []Admission
	Mutating    []Admission
	Conversions []Conversion
	HTTP        []HTTP
	Settings    Settings

	// Printed is the configuration as the hook has printed it, for people.
	Printed []byte
	// Contexts is the format of the binding contexts.
	Contexts ContextForm
}

// Command returns the program to start for the hook, and its first arguments.
func (h *Hook) Command() (program string, args []string) {
	if len(h.Interpreter) == 0 {
		return h.Path, nil
	}
	return h.Interpreter[0], append(slices.Clone(h.Interpreter[1:]), h.Path)
}

// ContextForm is the format of binding contexts.
type ContextForm int

const (
	// FullContexts carry types, objects, filter results and snapshots.
	FullContexts ContextForm = iota
	// NameContexts carry only the identity of the object (version 0).
	NameContexts
)

// Settings limit the runs of a hook.
type Settings struct {
	// MinInterval is the interval in which one token returns to the rate limiter; 0 means no limit.
	MinInterval time.Duration
	// Burst is the size of the rate limiter's bucket: at least 1 when MinInterval is set, otherwise 0.
	Burst int
	// ExecutionTimeout ends a run that takes longer. Nil means the operator's default, 0 means none.
	ExecutionTimeout *time.Duration
	// ContextsPerRun is the largest number of contexts in one run; 0 means no limit.
	ContextsPerRun int
	// Retry is the default of the hook's bindings; nil means none.
	Retry *Retry
	// OneByOne reports that ContextsPerRun is 1 because the script of the hook reads only the first context.
	OneByOne bool
	// Kubectl is "auto" or "process"; empty means the operator's default.
	Kubectl string
	// Record selects the runs that are recorded; empty means the operator's default.
	Record Record
	// Worker is set if processes of the hook serve runs one after the other.
	Worker *Worker
	// MaxFileBytes bounds each file that a run writes, MaxLogBytes the output of a run that is logged; 0 means the defaults.
	MaxFileBytes, MaxLogBytes int
	// ShardBy divides the objects of the kubernetes bindings among shards, if there are any.
	ShardBy shard.By
}

// Worker limits a process that serves runs. 0 means no limit.
type Worker struct {
	// MaxAge bounds the age of what was prepared, MaxRuns leaks, IdleTimeout the memory of hooks at rest.
	MaxAge, IdleTimeout time.Duration
	MaxRuns             int
}

// Record selects the runs of a hook that are recorded.
type Record string

const (
	// RecordFailures keeps the last failed run of each hook.
	RecordFailures Record = "failures"
	RecordAll      Record = "all"
	RecordNone     Record = "none"
)

// AutoContexts as ContextsPerRun means that the script of the hook decides. Loaded hooks have the decision instead.
const AutoContexts = -1

// Merges reports whether one run may get several contexts if the number is not limited.
func (h *Hook) Merges() bool {
	groups := map[string]bool{}
	for _, b := range h.Schedules {
		groups[b.Group] = true
	}
	for _, b := range h.Kubernetes {
		// A Synchronization comes alone, or as the one context of its group.
		if b.Added || b.Modified || b.Deleted || b.Finalizer != "" {
			groups[b.Group] = true
		}
	}
	// One group becomes one context, whatever happens.
	return groups[""] || len(groups) > 1
}

// Binding has the fields that all kinds of bindings share.
type Binding struct {
	// Name need not be unique.
	Name string
	// Group coalesces the contexts of consecutive events; empty means none.
	Group string
	// Includes are the snapshots in each context of this binding, as indexes into Hook.Kubernetes, in order, without
	// duplicate names. Groups are expanded.
	Includes []int
}

// Schedule is a binding to a crontab.
type Schedule struct {
	Binding
	// Crontab is the text as configured; equal texts share ticks.
	Crontab      string
	Queue        string
	AllowFailure bool
	// Retry overrides fields of Settings.Retry; nil overrides none.
	Retry *Retry
}

// Kubernetes is a binding to changes of Kubernetes objects.
type Kubernetes struct {
	Binding
	Queue string
	// Lanes divide the Queue.
	Lanes        Lanes
	AllowFailure bool
	// Retry overrides fields of Settings.Retry; nil overrides none.
	Retry *Retry

	// APIVersion is "group/version" or "version"; empty means the preferred version.
	APIVersion string
	// Kind is a kind, plural or short name, case-insensitive.
	Kind string

	// Names restricts the names of objects; sorted, without duplicates, empty means all.
	Names []string
	// Labels and Fields are selectors in text form; empty means all.
	Labels string
	Fields string
	// Namespaces restricts the namespaces of objects.
	Namespaces Namespaces

	// JQFilter is a jq program; empty means none. It compiles.
	JQFilter string
	// KeepFullObjects adds the whole object to events and snapshots.
	KeepFullObjects bool
	// IncludePrevious adds what the hook has seen before to the contexts of changes. The binding then has no Group.
	IncludePrevious bool
	// KeepManagedFields keeps metadata.managedFields. Nil means the operator's default.
	KeepManagedFields *bool

	// Added, Modified and Deleted select the events that run the hook.
	Added, Modified, Deleted bool
	// IgnoreOwn leaves out Modified events that are changes by operations of the hook.
	IgnoreOwn bool
	// Finalizer is added to each object before its first event, and makes Deleting events; empty means none.
	Finalizer string

	// Initial is the form in which the initial list is delivered.
	Initial Initial
	// Optional: a kind that is not installed is an empty snapshot, and holds up nothing. It has an APIVersion and no Finalizer.
	Optional bool
	// WaitForSynchronization runs the Synchronization in the main queue, otherwise in Queue.
	WaitForSynchronization bool
	// Condition is the type of the condition in which the operator reports the outcome of runs, in the status of the objects; empty means
	// none. The queue then has the key ByObject, and the binding no Group.
	Condition string
	// Resync is the interval of relists; 0 means never.
	Resync time.Duration
}

// SeesGenerations reports whether each generation of an object is another state for the hook, although a JQFilter hides what has changed:
// the condition has the generation that the hook has seen.
func (k *Kubernetes) SeesGenerations() bool { return k.Condition != "" }

// Guarded reports whether the binding gets objects only when they have its finalizer.
func (k *Kubernetes) Guarded() bool { return k.Finalizer != "" }

// LeavesOut reports whether some changes by the operator are no events of the binding.
func (k *Kubernetes) LeavesOut() bool { return k.Condition != "" || k.IgnoreOwn }

// Initial is the form in which a hook gets the initial list of a binding.
type Initial int

const (
	// InitialList delivers it as one Synchronization.
	InitialList Initial = iota
	// InitialNone does not deliver it; it is only in snapshots.
	InitialNone
	// InitialEvents delivers an Added event for each object.
	InitialEvents
)

// Namespaces restricts the namespaces of a Kubernetes binding. The zero value means all.
type Namespaces struct {
	// Names is sorted and has no duplicates. It is empty when Labels is set.
	Names []string
	// Labels is a label selector of namespaces in text form, which is evaluated as namespaces change.
	// ByLabels reports whether it is set; the empty selector selects all.
	Labels   string
	ByLabels bool
}

// Admission is a validating or mutating admission webhook.
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

// MatchCondition is a CEL expression that a request must satisfy, LabelSelector a selector. They are passed to the API server unchanged.
type (
	MatchCondition   = admissionregistration.MatchCondition
	LabelSelector    = metav1.LabelSelector
	LabelRequirement = metav1.LabelSelectorRequirement
)

// Conversion is a conversion webhook of one CRD.
type Conversion struct {
	Binding
	CRDName string
	Steps   []ConversionStep
}

// ConversionStep is one conversion that a hook implements. The versions are as configured.
type ConversionStep struct {
	From string `json:"fromVersion"`
	To   string `json:"toVersion"`
}
