package console

import (
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// The answers of the debug API, as far as pages show them. A field that an older operator does not send is empty.

type status struct {
	Version  string
	Healthy  bool
	Loading  bool
	NotReady string
	Shard    *shard
	Hooks    []hookStatus
	Queues   []queueStatus
	Failures []run
	Troubles []trouble
}

// shard is the share of a replica in the work of several.
type shard struct {
	// Shard is nil for a standby. Waits is what it waits for while it does not serve.
	Shard    *int
	Shards   int
	Division string
	Serving  bool
	Waits    string
	Since    time.Time
	// Holders are the Pods that have the shards; empty for none. A replica that serves does not follow them.
	Holders []string
}

type trouble struct {
	Kind, Subject, Problem, Hint string
	Hooks                        []string
	Notice                       bool
}

type hookStatus struct {
	Name, State string
	Bindings    []bindingStatus
	Objects     int
	Workers     []struct {
		Worker, PID, Runs int
		State             string
		Started           time.Time
	}
	Last    *run     `json:"lastRun"`
	Minutes *minutes `json:"minutes"`
}

type bindingStatus struct {
	Type, Name, About, Queue, State string
	Objects                         *int
}

// minutes are the runs of the last 60 minutes, the current one last.
type minutes struct{ Runs, Failures []int }

type queueStatus struct {
	Name, Phase, Head                        string
	Tasks, Failures, Lanes, Running, Delayed int
	For, RetryIn                             history.Duration
	Paused                                   bool
}

// State is that of the queue in words.
func (q queueStatus) State() string {
	switch {
	case q.Paused:
		return "paused"
	case q.Phase == "":
		return "idle"
	}
	return q.Phase
}

// InTrouble reports that a failed task waits for its next attempt.
func (q queueStatus) InTrouble() bool { return q.Failures > 0 || q.Delayed > 0 }

// Keyed reports that the queue has lanes.
func (q queueStatus) Keyed() bool { return q.Lanes > 0 }

// lanes are those of a queue: at most 200, those in trouble first, or those whose key contains a text.
type lanes struct {
	Queue string
	Keyed bool
	// Count is the number of all, Matching of those whose key contains the text.
	Concurrency, Tasks, Count, Running, Delayed, Matching int
	Lanes                                                 []lane
}

type lane struct {
	Key, Phase, Error, Hook, Event, Binding, About string
	Tasks, Failures                                int
	For, RetryIn                                   history.Duration
}

// Head is the first task.
func (l lane) Head() string {
	if l.Hook == "" {
		return l.About
	}
	return strings.Join(slices.Compact([]string{l.Hook, l.Event, l.Binding}), " · ")
}

// State is that of the lane in words.
func (l lane) State() string {
	if l.Failures > 0 && l.Phase == "sleeping" {
		return "failed, " + times(l.Failures)
	}
	if l.Phase == "" {
		return "idle"
	}
	return l.Phase
}

// Delayed reports that a failed task waits for its next attempt.
func (l lane) Delayed() bool { return l.Failures > 0 }

type explanation struct {
	Hook, Verdict, LastRun string
	Reasons                []struct {
		Kind, Text, Hint string
		Blocks           bool
	}
}

type run struct {
	ID, Task, Hook, Queue, Key, Binding, Event string
	Why                                        []string
	Events, Attempt                            int
	Status                                     string
	Started                                    time.Time
	Waited, Took                               history.Duration
	Worker, Exit, Error, Answer, Message       string
	Output                                     string
	OutputCut, Unrecorded                      bool
	Patches                                    []operation
	PatchCount                                 int
	Kubectl                                    []struct {
		Verb, Way, Reason string
		Count             int
	}
	Phases []phase
}

type operation struct {
	Operation, Kind, Namespace, Name, Outcome string
	Warnings                                  []string
}

type phase struct {
	Name    string
	Started time.Time
	Took    history.Duration
}

// InProgress reports that the run has not ended.
func (r run) InProgress() bool { return r.Status == string(history.Running) }

// Bad reports that the run failed, allowed or not.
func (r run) Bad() bool { return history.Status(r.Status).Bad() }

// MoreEvents are those that Why does not describe, MoreOperations those that are not kept.
func (r run) MoreEvents() int     { return max(0, r.Events-len(r.Why)) }
func (r run) MoreOperations() int { return max(0, r.PatchCount-len(r.Patches)) }

// Parts are the phases; those of an older operator are made of the times of the run.
func (r run) Parts() []phase {
	if len(r.Phases) > 0 {
		return r.Phases
	}
	var all []phase
	if r.Queue != "" {
		all = append(all, phase{"waiting", r.Started.Add(-time.Duration(r.Waited)), r.Waited})
	}
	return append(all, phase{"process", r.Started, r.Took})
}

// Object is Kind/namespace/name, or Kind/name, of the object of an operation, as pages of objects have it in their addresses; empty without
// a name.
func (o operation) Object() string {
	if o.Name == "" {
		return ""
	}
	kind, _, _ := strings.Cut(o.Kind, "/") // a subresource
	return objectPath(kind, o.Namespace, o.Name)
}

// objectPath is an object as pages of objects have it in their addresses. The namespace of a cluster object is empty.
func objectPath(kind, namespace, name string) string {
	if namespace == "" {
		return kind + "/" + name
	}
	return kind + "/" + namespace + "/" + name
}

type parkedTask struct {
	ID, Hook, Queue, Key, Error string
	Bindings, About             []string
	Contexts, Attempts          int
	Since                       time.Time
	GaveUp                      bool
}

type set struct {
	ID, Hook, Owner, Namespace, Problem string
	Name                                string `json:"set"`
	Members                             *int
	HookAbsent                          bool
	Objects                             []struct {
		Kind, Namespace, Name, State, Reason string
		Kept                                 bool
	}
}

type finalizer struct {
	Finalizer, Resource, Instance, Hook, Binding string
	Own, Orphan                                  bool
	Objects                                      int
	Elsewhere                                    []string
}

// acted is the answer of an action.
type acted struct {
	Count         int
	Task, Message string
}

// object is what is known of an object now.
type object struct {
	Kind, Namespace, Name string
	Bindings              []objectBinding
	Sets                  []struct {
		ID, Hook, State, Reason string
		Name                    string `json:"set"`
		Owner                   bool
	}
	Runs []run
	// History is how far back the history of each hook with a binding for the kind reaches.
	History []struct {
		Hook  string
		Since time.Time
	}
}

// objectBinding is a binding in the eyes of an object.
type objectBinding struct {
	Hook, Binding, State, Problem, Finalizer, Queue, Key     string
	Sees, HasFinalizer, AwaitsFinalizer, Deleting, EventsCut bool
	// Lane is nil if it has no task. Events of the object wait in it, behind Before tasks.
	Lane           *lane
	Events, Before int
	Parked         []struct {
		ID, Error          string
		Contexts, Attempts int
		Since              time.Time
	}
	Requeue *struct {
		Due        *time.Time
		AwaitsRoom bool
	}
}
