package testfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Input is what a case gives to a hook: the keys that test files and the flags of run have in common. Paths are absolute.
type Input struct {
	// Objects are files and directories with the objects of the simulated cluster.
	Objects  texts `yaml:"objects"`
	Trigger  `yaml:",inline"`
	Together bool `yaml:"together"`
	// Attempts of a run in all; 0 means 1.
	Attempts int `yaml:"attempts"`
	// As and AsGroups are the user of a review or HTTP request.
	As       string `yaml:"as"`
	AsGroups texts  `yaml:"as-group"`
	// Body is a file, Headers have the form "Name: value".
	Body    string  `yaml:"body"`
	Headers headers `yaml:"header"`
	// FieldValidation is Strict or Warn: what follows an unknown or mistyped field of a built-in kind, an error or a note.
	FieldValidation string `yaml:"fieldValidation"`
	// Binding restricts events to the bindings of this name.
	Binding string `yaml:"binding"`
	// Env are variables by name, Stubs programs by name.
	Env   map[string]string `yaml:"env"`
	Stubs map[string]Stub   `yaml:"stub"`
}

// Trigger is what runs the hook: at most one field is set.
type Trigger struct {
	Events  events   `yaml:"event"`
	Tick    string   `yaml:"tick"`
	Startup bool     `yaml:"startup"`
	Review  *Review  `yaml:"review"`
	Convert *Convert `yaml:"convert"`
	HTTP    string   `yaml:"http"`
	From    string   `yaml:"from"`
}

// texts is one text, or a list of them.
type texts []string

func (t *texts) UnmarshalYAML(n *yaml.Node) error {
	*t = texts{}
	for _, item := range items(n) {
		*t = append(*t, item.Value)
	}
	return nil
}

// headers is like texts, or a mapping.
type headers []string

func (h *headers) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return n.Decode((*texts)(h))
	}
	*h = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		*h = append(*h, n.Content[i].Value+": "+resolve(n.Content[i+1]).Value)
	}
	return nil
}

// Event is a change of an object.
type Event struct {
	// Type is Added, Modified, Deleted, Deleting or Requeue.
	Type string
	// Ref is a manifest, or KIND/NAME or KIND/NAMESPACE/NAME; of a Requeue also a binding or group.
	Ref string
	// Place is shown in errors.
	Place string
}

// events are in the order in which they are written: mappings of a type to references.
type events []Event

func (e *events) UnmarshalYAML(n *yaml.Node) error {
	*e = nil
	for _, item := range items(n) {
		for i := 0; i+1 < len(item.Content); i += 2 {
			typ := item.Content[i].Value
			for _, ref := range items(resolve(item.Content[i+1])) {
				*e = append(*e, Event{typ, ref.Value, fmt.Sprintf("event %s=%s", typ, ref.Value)})
			}
		}
	}
	return nil
}

// Review is an admission request for the objects of a file. UPDATE has two files, the old and the new object.
type Review struct {
	Operation string
	Files     texts
}

func (r *Review) UnmarshalYAML(n *yaml.Node) error {
	if len(n.Content) < 2 {
		return errSchema
	}
	r.Operation = n.Content[0].Value
	return n.Content[1].Decode(&r.Files)
}

// Convert is a conversion of the objects of a file.
type Convert struct{ Version, File string }

func (c *Convert) UnmarshalYAML(n *yaml.Node) error {
	if len(n.Content) < 2 {
		return errSchema
	}
	c.Version = n.Content[0].Value
	return n.Content[1].Decode(&c.File)
}

// Stub replaces a program in PATH.
type Stub struct {
	// File is a program, Script the text of one, which has more than one word; without both, the program prints Stdout and Stderr and exits
	// with Exit.
	File   string `yaml:"-"`
	Script string `yaml:"-"`
	Stdout string `yaml:"stdout"`
	Stderr string `yaml:"stderr"`
	Exit   int    `yaml:"exit"`
}

func (s *Stub) UnmarshalYAML(n *yaml.Node) error {
	*s = Stub{}
	if n.Kind == yaml.MappingNode {
		type plain Stub
		return n.Decode((*plain)(s))
	}
	if s.Script = n.Value; !strings.ContainsAny(s.Script, " \n") && !strings.HasPrefix(s.Script, "#!") {
		s.File, s.Script = s.Script, ""
	}
	return nil
}

// errSchema is the error of what the schema has rejected.
var errSchema = errors.New("a value does not fit the schema")

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

// below makes paths absolute: they are relative to a directory.
func (in *Input) below(dir string) {
	at := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	for i := range in.Objects {
		at(&in.Objects[i])
	}
	for i := range in.Events {
		if IsManifest(in.Events[i].Ref) {
			at(&in.Events[i].Ref)
		}
	}
	if in.Review != nil {
		for i := range in.Review.Files {
			at(&in.Review.Files[i])
		}
	}
	if in.Convert != nil {
		at(&in.Convert.File)
	}
	at(&in.Body)
	at(&in.From)
	for name, stub := range in.Stubs {
		at(&stub.File)
		in.Stubs[name] = stub
	}
}

// FromFlags returns the input of keys with values as test files have them; paths are relative to dir.
func FromFlags(dir string, keys map[string]any) (Input, error) {
	keys["name"] = "run" // as a case
	text, err := json.Marshal(map[string]any{"cases": []any{keys}})
	if err != nil {
		return Input{}, err
	}
	f, problems := Parse(filepath.Join(dir, "run"), text)
	var errs []error
	for _, p := range problems {
		if p.Hint != "" {
			p.Message += ": " + p.Hint
		}
		errs = append(errs, errors.New(p.Message))
	}
	if len(errs) > 0 {
		return Input{}, errors.Join(errs...)
	}
	return f.Cases[0].Input, nil
}
