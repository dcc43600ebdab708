package effect

import (
	"maps"
	"slices"
)

// Operation is a kind of change of an object. The values are in the order of the documentation.
type Operation int

const (
	// Create fails if the object exists, CreateIfNotExists leaves it as it is, CreateOrUpdate replaces it.
	Create Operation = iota + 1
	CreateIfNotExists
	CreateOrUpdate
	// ServerSideApply merges the manifest into the object, as its field manager.
	ServerSideApply
	// Delete also deletes dependents and returns when the object is gone, DeleteInBackground returns immediately,
	// DeleteNonCascading orphans dependents. A missing object is no error.
	Delete
	DeleteInBackground
	DeleteNonCascading
	// MergePatch and JSONPatch send a patch, JQPatch changes the object by a filter.
	MergePatch
	JSONPatch
	JQPatch
	// SetCondition replaces one condition in the status of the object, RecordEvent publishes an Event about it.
	SetCondition
	RecordEvent
	// Sync makes a set of objects complete: it applies the objects in the set and prunes the others.
	Sync
)

// traits are the properties of an operation.
type traits struct {
	// word is the operation's name in patch files.
	word string
	// object reports that the operation has a manifest, deletes that it removes the object.
	object, deletes bool
	// verbs are the ones that RBAC has to allow for it; the "get" of CreateIfNotExists only helps where a request to create is rejected.
	verbs []string
}

var operations = map[Operation]traits{
	Create:             {word: "Create", object: true, verbs: []string{"create"}},
	CreateIfNotExists:  {word: "CreateIfNotExists", object: true, verbs: []string{"create", "get"}},
	CreateOrUpdate:     {word: "CreateOrUpdate", object: true, verbs: []string{"create", "get", "update"}},
	ServerSideApply:    {word: "Apply", object: true, verbs: []string{"create", "patch"}},
	Delete:             {word: "Delete", deletes: true, verbs: []string{"delete", "get"}},
	DeleteInBackground: {word: "DeleteInBackground", deletes: true, verbs: []string{"delete"}},
	DeleteNonCascading: {word: "DeleteNonCascading", deletes: true, verbs: []string{"delete"}},
	MergePatch:         {word: "MergePatch", verbs: []string{"patch"}},
	JSONPatch:          {word: "JSONPatch", verbs: []string{"patch"}},
	JQPatch:            {word: "JQPatch", verbs: []string{"get", "update"}},
	SetCondition:       {word: "Condition", verbs: []string{"get", "patch"}},
	RecordEvent:        {word: "Event"},
	Sync:               {word: "Sync", verbs: []string{"create", "delete", "get", "list", "patch", "watch"}},
}

// String returns the word that hooks write.
func (o Operation) String() string { return operations[o].word }

// ParseOperation returns the operation of a word, or 0.
func ParseOperation(word string) Operation {
	for o, t := range operations {
		if t.word == word {
			return o
		}
	}
	return 0
}

// Operations returns the words of all operations, in their order.
func Operations() []string {
	words := make([]string, 0, len(operations))
	for _, o := range slices.Sorted(maps.Keys(operations)) {
		words = append(words, o.String())
	}
	return words
}

// HasObject reports whether the operation has a manifest.
func (o Operation) HasObject() bool { return operations[o].object }

// NameInPath is the name that the request has in its path, by which a rule can be limited to it: creations have none.
func (p *Patch) NameInPath() string {
	if p.Operation <= CreateOrUpdate {
		return ""
	}
	return p.Name
}

// Deletes reports whether the operation removes an object.
func (o Operation) Deletes() bool { return operations[o].deletes }

// Verbs returns what RBAC has to allow for the operation. An Event is no change of the object and needs none there.
func (o Operation) Verbs() []string { return operations[o].verbs }

// Patch is one change of the cluster that a hook requests. It is valid: it has all that its operation needs.
type Patch struct {
	Operation Operation
	// Number counts the documents of the hook's file, from 1; 0 if the operator itself changes the object.
	Number int
	// APIVersion may be empty for operations without a manifest: the API server's preferred version.
	APIVersion string
	// Kind is a kind, plural or short name in any case.
	Kind      string
	Namespace string
	// Name may be empty where the manifest has generateName.
	Name string
	// Subresource is "status", "scale", …, or empty.
	Subresource string

	// Object is the manifest as JSON, without the metadata that only the API server sets.
	Object []byte
	// Body is the merge patch or the JSON patch, as JSON.
	Body []byte
	// Filter is the jq program of a JQPatch. It compiles.
	Filter string
	// Condition is the condition of a SetCondition; its Subresource is "status".
	Condition *Condition
	// Event is the Event of a RecordEvent. The object is the one that it regards.
	Event *Event
	// Set is the set of a Sync, and nil for the other operations.
	Set *ObjectSet

	// Read, if set, reads the patch again, with what is sent: Object, Body, Filter and the objects of a Set are empty here.
	Read func() (Patch, error)

	// Force takes ownership of fields that other managers own (ServerSideApply).
	Force bool
	// IgnoreMissingObject makes a missing object no error.
	IgnoreMissingObject bool
	// IgnoreHookError applies the patch even if the hook fails. It is set for status patches only.
	IgnoreHookError bool
}

// Whole returns the patch with what is sent.
func (p *Patch) Whole() (*Patch, error) {
	if p.Read == nil {
		return p, nil
	}
	whole, err := p.Read()
	if err == nil && p.Set != nil {
		whole.Set.Finalizers = p.Set.Finalizers
	}
	return &whole, err
}

// Size is the number of bytes to send.
func (p *Patch) Size() int {
	n := len(p.Object) + len(p.Body) + len(p.Filter)
	if p.Condition != nil {
		n += len(p.Condition.Message)
	}
	if p.Event != nil {
		n += len(p.Event.Note)
	}
	if p.Set != nil {
		for i := range p.Set.Objects {
			n += len(p.Set.Objects[i].Object)
		}
	}
	return n
}

// Condition is an entry of status.conditions.
type Condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	// ObservedGeneration is the generation that the hook has seen; 0 means to determine it when the object is changed.
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
}

// Event is a Kubernetes Event about an object.
type Event struct {
	// UID is the uid of the object; empty means to read it.
	UID string
	// Type is Normal or Warning.
	Type, Reason, Action string
	// Note has at most MaxNote bytes.
	Note string
}

// MaxNote is the number of bytes that the API allows in the note of an Event.
const MaxNote = 1 << 10
