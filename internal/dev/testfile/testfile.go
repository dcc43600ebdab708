// Package testfile reads the test files of hooks, compares what came of a case with what it expects, and updates expectations.
//
// Callers may rely on this:
//   - Every error in a file is reported, with its line and column.
//   - Comparison and update are functions of values: nothing here runs hooks or reads files.
//   - An update changes the bytes of expectations that are not met and no others; what is not certain stays.
package testfile

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Suffix is that of the names of test files; the hook's name, without its extension, precedes it.
const Suffix = "_test.yaml"

// File is a test file.
type File struct {
	Path string
	// Hook is the path of the hook; empty means the executable with the file's stem.
	Hook string
	// Env are the variables of all cases, and of the config call.
	Env   map[string]string
	Cases []*Case
	text  []byte
}

// Case is a test case.
type Case struct {
	Name string
	Line int
	Input
	// Serial cases run while no other case of the file does.
	Serial bool
	Expect Expect
}

// Parse reads a test file.
func Parse(path string, text []byte) (*File, []Problem) {
	f := &File{Path: path, text: text}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		message, line := plain(err).Error(), 1
		if n, _ := fmt.Sscanf(message, "line %d:", &line); n == 1 {
			_, message, _ = strings.Cut(message, ": ")
		}
		if strings.Contains(message, "tab") {
			line = tabbed(text, line)
		}
		return f, []Problem{{Line: line, Column: 1, Message: "it is not YAML: " + message}}
	}
	if len(root.Content) == 0 {
		return f, []Problem{{Line: 1, Column: 1, Message: "cases must be a list with at least one case", Hint: "the file is empty"}}
	}
	r := &reader{dir: filepath.Dir(path)}
	r.file(f, root.Content[0])
	return f, r.problems
}

// tabbed is the line with a tab in its indentation: the library reports the one before.
func tabbed(text []byte, reported int) int {
	for i, line := range strings.Split(string(text), "\n") {
		if i+1 >= reported && strings.Contains(line[:len(line)-len(strings.TrimLeft(line, " \t"))], "\t") {
			return i + 1
		}
	}
	return reported
}

func (r *reader) file(f *File, n *yaml.Node) {
	var defaults Case
	var cases *yaml.Node
	known := r.inputs(&defaults)
	known["$schema"] = func(*yaml.Node) {}
	known["hook"] = r.path("hook", &f.Hook)
	known["cases"] = func(n *yaml.Node) { cases = n }
	if n.Kind != yaml.MappingNode {
		r.problem(n, "write cases: with a list of cases", "a test file must be a mapping, it is %s", kind(n))
		return
	}
	set := r.keys(n, "a test file", known)
	r.oneTrigger(n, &defaults.Input)
	f.Env = defaults.Env
	switch {
	case !set["cases"]:
		r.problem(n, "add cases: with a list", "the file has no cases")
		return
	case cases.Kind != yaml.SequenceNode || len(cases.Content) == 0:
		r.problem(cases, "", "cases must be a list with at least one case")
		return
	}
	names := map[string]int{}
	for _, item := range cases.Content {
		c := r.one(resolve(item), defaults)
		if line := names[c.Name]; line > 0 && c.Name != "" {
			r.problem(item, "choose another name", "the case %q is in line %d already", c.Name, line)
		}
		names[c.Name] = c.Line
		f.Cases = append(f.Cases, c)
	}
}

func (r *reader) one(n *yaml.Node, defaults Case) *Case {
	c := &Case{Line: n.Line, Input: defaults.Input, Serial: defaults.Serial}
	triggers := false
	for i := 0; i < len(n.Content); i += 2 {
		triggers = triggers || slices.Contains(Triggers, n.Content[i].Value)
	}
	if triggers { // they replace that of the file
		c.Trigger = Trigger{}
	}
	known := r.inputs(c)
	known["name"] = r.text("name", &c.Name)
	inFlow := n.Style&yaml.FlowStyle != 0
	known["expect"] = func(n *yaml.Node) { c.Expect = r.expect(n, inFlow) }
	before := len(r.problems)
	set := r.keys(n, "a case", known)
	if c.Name == "" && len(r.problems) == before {
		r.problem(n, "add name: with what the case shows", "a case has no name")
	}
	if triggers {
		r.oneTrigger(n, &c.Input)
	}
	r.together(n, set, &c.Input)
	return c
}

func (r *reader) oneTrigger(n *yaml.Node, in *Input) {
	if set := in.triggers(); len(set) > 1 {
		r.problem(n, "split it into several cases", "a case has at most one of %s: this one has %s", strings.Join(Triggers, ", "),
			strings.Join(set, " and "))
	}
}

// together checks that what a case sets itself has the keys that it needs, in the case or the defaults.
func (r *reader) together(n *yaml.Node, set map[string]bool, in *Input) {
	if set["from"] && set["objects"] && len(in.Objects) > 0 {
		r.problem(n, "remove objects", "the objects of from are those of its contexts")
	}
	for _, need := range []struct {
		set, ok bool
		problem string
	}{
		{set["together"] && in.Together, len(in.Events) > 0, "together needs event"},
		{set["body"] && in.Body != "" || set["header"] && len(in.Headers) > 0, in.HTTP != "", "body and header need http"},
		{set["as"] && in.As != "" || set["as-group"] && len(in.AsGroups) > 0, in.Review != nil || in.HTTP != "",
			"as and as-group need review or http"},
	} {
		if need.set && !need.ok {
			r.problem(n, "", "%s", need.problem)
		}
	}
}

// inputs are the keys that are flags of run, and parallel.
func (r *reader) inputs(c *Case) map[string]func(*yaml.Node) {
	in := &c.Input
	return map[string]func(*yaml.Node){
		"objects":  r.paths("objects", &in.Objects),
		"event":    func(n *yaml.Node) { r.events(n, in) },
		"together": r.truth("together", &in.Together),
		"attempts": r.number("attempts", 1, &in.Attempts),
		"tick":     r.text("tick", &in.Tick),
		"startup":  r.truth("startup", &in.Startup),
		"review":   func(n *yaml.Node) { r.review(n, in) },
		"as":       r.text("as", &in.As),
		"as-group": r.texts("as-group", &in.AsGroups),
		"convert":  func(n *yaml.Node) { r.convert(n, in) },
		"http": func(n *yaml.Node) {
			r.text("http", &in.HTTP)(n)
			if !httpRequest.MatchString(in.HTTP) {
				r.problem(n, `write for instance "POST /things"`, "http must be a method and a path, it is %q", in.HTTP)
			}
		},
		"fieldValidation": func(n *yaml.Node) {
			r.text("fieldValidation", &in.FieldValidation)(n)
			if !slices.Contains(FieldValidations, in.FieldValidation) {
				r.problem(n, "the values are "+strings.Join(FieldValidations, ", "), "fieldValidation has no value %q", in.FieldValidation)
			}
		},
		"body":    r.path("body", &in.Body),
		"header":  func(n *yaml.Node) { r.headers(n, in) },
		"from":    r.path("from", &in.From),
		"binding": r.text("binding", &in.Binding),
		"env":     func(n *yaml.Node) { r.env(n, in) },
		"stub":    func(n *yaml.Node) { r.stubs(n, in) },
		"parallel": func(n *yaml.Node) {
			parallel := true
			r.truth("parallel", &parallel)(n)
			c.Serial = !parallel
		},
	}
}

var httpRequest = regexp.MustCompile(`^[A-Z]+ /`)

// at returns a path of the file.
func (r *reader) at(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.dir, path)
}

func (r *reader) path(what string, into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		r.text(what, into)(n)
		*into = r.at(*into)
	}
}

func (r *reader) paths(what string, into *[]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		r.texts(what, into)(n)
		for i, path := range *into {
			(*into)[i] = r.at(path)
		}
	}
}

func (r *reader) events(n *yaml.Node, in *Input) {
	for _, item := range items(n) {
		r.pairs(item, "event", func(key, v *yaml.Node) {
			var refs []string
			r.texts("event."+key.Value, &refs)(v)
			if !slices.Contains(EventTypes, key.Value) {
				r.problem(key, "the types are "+strings.Join(EventTypes, ", "), "there is no event of type %q", key.Value)
				return
			}
			for _, ref := range refs {
				place := fmt.Sprintf("event %s=%s", key.Value, ref)
				if IsManifest(ref) {
					ref = r.at(ref)
				} else if key.Value == "Modified" {
					r.problem(v, "name a manifest, such as fixtures/web-2.yaml", "Modified needs the new version of an object, %q is no manifest", ref)
				} else if isBinding := key.Value == "Requeue" && !strings.Contains(ref, "/"); !isBinding &&
					(strings.Count(ref, "/") < 1 || strings.Count(ref, "/") > 2) {
					r.problem(v, "write a manifest, KIND/NAME or KIND/NAMESPACE/NAME", "%q is no reference of an object", ref)
				}
				in.Events = append(in.Events, Event{key.Value, ref, place})
			}
		})
	}
}

func (r *reader) review(n *yaml.Node, in *Input) {
	r.pairs(n, "review", func(key, v *yaml.Node) {
		rv := &Review{Operation: key.Value}
		r.paths("review."+key.Value, &rv.Files)(v)
		want := 1
		if key.Value == "UPDATE" {
			want = 2
		}
		switch {
		case !slices.Contains(Operations, key.Value):
			r.problem(key, "the operations are "+strings.Join(Operations, ", "), "there is no operation %q", key.Value)
		case in.Review != nil:
			r.problem(key, "split the case", "review has more than one operation")
		case len(rv.Files) != want:
			r.problem(v, "", "review.%s takes %s, it has %d", key.Value, map[int]string{1: "one file", 2: "two files"}[want], len(rv.Files))
		}
		in.Review = rv
	})
}

func (r *reader) convert(n *yaml.Node, in *Input) {
	r.pairs(n, "convert", func(key, v *yaml.Node) {
		if in.Convert != nil {
			r.problem(key, "split the case", "convert has more than one version")
		}
		in.Convert = &Convert{Version: key.Value}
		r.path("convert."+key.Value, &in.Convert.File)(v)
	})
}

func (r *reader) headers(n *yaml.Node, in *Input) {
	in.Headers = nil
	if n.Kind == yaml.MappingNode {
		r.pairs(n, "header", func(key, v *yaml.Node) {
			var text string
			r.text("header."+key.Value, &text)(v)
			in.Headers = append(in.Headers, key.Value+": "+text)
		})
		return
	}
	r.texts("header", &in.Headers)(n)
	for _, header := range in.Headers {
		if name, _, ok := strings.Cut(header, ":"); !ok || name == "" {
			r.problem(n, `write for instance "Accept: text/plain"`, "%q is no header", header)
		}
	}
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (r *reader) env(n *yaml.Node, in *Input) {
	in.Env = maps.Collect(maps.All(in.Env)) // those of the file, and of the case
	r.pairs(n, "env", func(key, v *yaml.Node) {
		var text string
		r.text("env."+key.Value, &text)(v)
		if !variable.MatchString(key.Value) {
			r.problem(key, "use letters, digits and _", "%q is no name of a variable", key.Value)
		}
		in.Env[key.Value] = text
	})
}

func (r *reader) stubs(n *yaml.Node, in *Input) {
	in.Stubs = maps.Collect(maps.All(in.Stubs))
	r.pairs(n, "stub", func(key, v *yaml.Node) {
		if strings.ContainsAny(key.Value, "/ \t\n") || key.Value == "" {
			r.problem(key, "", "a stub replaces a program in PATH: %q is no name of a file", key.Value)
			return
		}
		var s Stub
		if v.Kind == yaml.MappingNode {
			r.keys(v, "stub."+key.Value, map[string]func(*yaml.Node){
				"stdout": r.text("stdout", &s.Stdout), "stderr": r.text("stderr", &s.Stderr), "exit": r.number("exit", 0, &s.Exit),
			})
		} else {
			r.text("stub."+key.Value, &s.Script)(v)
			if !strings.ContainsAny(s.Script, " \n") && !strings.HasPrefix(s.Script, "#!") {
				s.File, s.Script = r.at(s.Script), ""
			}
		}
		in.Stubs[key.Value] = s
	})
}
