package testfile

import (
	"encoding/json"
	"errors"

	"go.yaml.in/yaml/v3"
)

// Input is what a case gives to a hook: the keys that test files and the flags of run have in common. Paths are absolute.
type Input struct {
	// Objects are files and directories with the objects of the simulated cluster.
	Objects []string
	Trigger
	Together bool
	// Attempts of a run in all; 0 means 1.
	Attempts int
	// As and AsGroups are the user of a review or HTTP request.
	As       string
	AsGroups []string
	// Body is a file, Headers have the form "Name: value".
	Body    string
	Headers []string
	// FieldValidation is one of FieldValidations; empty means the first.
	FieldValidation string
	// Binding restricts events to the bindings of this name.
	Binding string
	// Env are variables by name, Stubs programs by name.
	Env   map[string]string
	Stubs map[string]Stub
}

// Trigger is what runs the hook: at most one field is set.
type Trigger struct {
	Events  []Event
	Tick    string
	Startup bool
	Review  *Review
	Convert *Convert
	HTTP    string
	From    string
}

// FieldValidations are what follows an unknown or mistyped field of a built-in kind: an error, or a note.
var FieldValidations = []string{"Strict", "Warn"}

// Event is a change of an object.
type Event struct {
	// Type is one of EventTypes.
	Type string
	// Ref is a manifest, or KIND/NAME or KIND/NAMESPACE/NAME; of a Requeue also a binding or group.
	Ref string
	// Place is shown in errors.
	Place string
}

// EventTypes are the values of Event.Type.
var EventTypes = []string{"Added", "Modified", "Deleted", "Deleting", "Requeue"}

// Review is an admission request for the objects of a file. UPDATE has two files, the old and the new object.
type Review struct {
	Operation string
	Files     []string
}

// Operations are the values of Review.Operation.
var Operations = []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}

// Convert is a conversion of the objects of a file.
type Convert struct{ Version, File string }

// Stub replaces a program in PATH.
type Stub struct {
	// File is a program, Script the text of one, which has more than one word; without both, the program prints Stdout and Stderr and exits
	// with Exit.
	File, Script   string
	Stdout, Stderr string
	Exit           int
}

// Triggers are the keys of which a case has at most one.
var Triggers = []string{"event", "tick", "startup", "review", "convert", "http", "from"}

// triggers returns the ones that are set.
func (in *Trigger) triggers() (set []string) {
	for i, is := range []bool{len(in.Events) > 0, in.Tick != "", in.Startup, in.Review != nil, in.Convert != nil, in.HTTP != "",
		in.From != ""} {
		if is {
			set = append(set, Triggers[i])
		}
	}
	return set
}

// Triggered reports whether the input has a trigger. Without one the hook gets the Synchronization of its bindings.
func (in *Trigger) Triggered() bool { return len(in.triggers()) > 0 }

// FromFlags returns the input of keys with values as test files have them; paths are relative to dir.
func FromFlags(dir string, keys map[string]any) (Input, error) {
	text, err := json.Marshal(keys)
	if err != nil {
		return Input{}, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return Input{}, err
	}
	var c Case
	r := &reader{dir: dir}
	set := r.keys(root.Content[0], "run", r.inputs(&c))
	r.oneTrigger(root.Content[0], &c.Input)
	r.together(root.Content[0], set, &c.Input)
	var errs []error
	for _, p := range r.problems {
		if p.Hint != "" {
			p.Message += ": " + p.Hint
		}
		errs = append(errs, errors.New(p.Message))
	}
	return c.Input, errors.Join(errs...)
}
