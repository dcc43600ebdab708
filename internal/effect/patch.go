package effect

// Operation is what a Patch does.
type Operation int

const (
	// Create fails when the object exists, CreateIfNotExists leaves it alone, CreateOrUpdate replaces it.
	Create Operation = iota + 1
	CreateIfNotExists
	CreateOrUpdate
	// ServerSideApply merges the manifest into the object, as its field manager.
	ServerSideApply
	// Delete also deletes dependents and waits until the object is gone, DeleteInBackground does not wait,
	// DeleteNonCascading leaves dependents alone. A missing object is fine.
	Delete
	DeleteInBackground
	DeleteNonCascading
	// MergePatch and JSONPatch send a patch, JQPatch changes the object by a filter.
	MergePatch
	JSONPatch
	JQPatch
)

var operations = []string{"", "Create", "CreateIfNotExists", "CreateOrUpdate", "Apply", "Delete", "DeleteInBackground", "DeleteNonCascading", "MergePatch", "JSONPatch", "JQPatch"}

// String is the word that hooks write.
func (o Operation) String() string { return operations[o] }

// ParseOperation returns the operation of a word, or 0.
func ParseOperation(word string) Operation {
	for i, w := range operations {
		if w == word && i > 0 {
			return Operation(i)
		}
	}
	return 0
}

// Operations are all words, in the order of the documentation.
func Operations() []string { return operations[1:] }

// HasObject tells whether the operation carries a manifest.
func (o Operation) HasObject() bool { return o >= Create && o <= ServerSideApply }

// Deletes tells whether the operation removes an object.
func (o Operation) Deletes() bool { return o >= Delete && o <= DeleteNonCascading }

// Patch is one change of the cluster that a hook asked for. It is valid: what its operation needs is there.
type Patch struct {
	Operation Operation
	// Number is the document's place in the hook's file, from 1.
	Number int
	// APIVersion may be empty where there is no manifest: then the server's preferred version is meant.
	APIVersion string
	// Kind is a kind, plural or short name in any case.
	Kind      string
	Namespace string
	// Name may be empty where the manifest has generateName.
	Name string
	// Subresource is "status", "scale", …, or empty.
	Subresource string

	// Object is the manifest as JSON, without what only servers set.
	Object []byte
	// Body is the merge patch or the JSON patch, as JSON.
	Body []byte
	// Filter is the jq program of a JQPatch. It compiles.
	Filter string

	// Force takes fields over from other managers (ServerSideApply).
	Force bool
	// IgnoreMissingObject makes a missing object fine.
	IgnoreMissingObject bool
	// IgnoreHookError carries the patch out even if the hook fails. It is set for status patches only.
	IgnoreHookError bool
}

// Size is the number of bytes that the hook wants to send.
func (p *Patch) Size() int { return len(p.Object) + len(p.Body) + len(p.Filter) }
