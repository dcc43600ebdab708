// Package testfile reads the test files of hooks, compares what came of a case with what it expects, and updates expectations.
//
// Callers may rely on this:
//   - Every error in a file is reported, with its line and column.
//   - Comparison and update are functions of values: nothing here runs hooks or reads files.
//   - An update changes the lines of expectations that are not met and no others; what is not certain stays.
package testfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/shell-operator/shell-operator/internal/wire"
)

// Suffix ends the names of test files; the hook's name, without its extension, precedes it.
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
	Name  string `yaml:"name"`
	Line  int    `yaml:"-"`
	Input `yaml:",inline"`
	// Parallel: other cases of the file may run at the same time.
	Parallel bool   `yaml:"parallel"`
	Expect   Expect `yaml:"-"`
}

// Parse reads a test file.
func Parse(path string, text []byte) (*File, []Failure) {
	f := &File{Path: path, text: text}
	r := &reader{dir: filepath.Dir(path)}
	doc, err := wire.FirstDocument(text)
	if errors.Is(err, io.EOF) {
		return f, []Failure{{Line: 1, Column: 1, Message: "cases must be a list with at least one case", Hint: "the file is empty"}}
	}
	var asJSON []byte
	if err == nil {
		r.root = doc.Content[0]
		r.duplicates(r.root, "")
		asJSON, err = wire.YAMLToJSON(r.root)
	}
	if err != nil {
		line := 1
		message, hint := wire.SyntaxError(text, err)
		if n, _ := fmt.Sscanf(message, "line %d:", &line); n == 1 {
			_, message, _ = strings.Cut(message, ": ")
		}
		return f, []Failure{{Line: line, Column: 1, Message: "it is not YAML: " + message, Hint: hint}}
	}
	r.check(asJSON)
	if r.root.Kind == yaml.MappingNode {
		r.file(f)
	}
	slices.SortStableFunc(r.problems, func(a, b Failure) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return f, r.problems
}

// file reads what fits the schema: what does not is reported, and makes errors here.
func (r *reader) file(f *File) {
	var form struct {
		Case  `yaml:",inline"`
		Hook  string      `yaml:"hook"`
		Cases []yaml.Node `yaml:"cases"`
	}
	form.Parallel = true
	_ = r.root.Decode(&form)
	form.below(r.dir)
	r.names(r.root, "", &form.Input)
	r.oneTrigger(r.root, &form.Input)
	f.Env = form.Env
	if f.Hook = form.Hook; f.Hook != "" && !filepath.IsAbs(f.Hook) {
		f.Hook = filepath.Join(r.dir, f.Hook)
	}
	names := map[string]int{}
	for i := range form.Cases {
		n := resolve(&form.Cases[i])
		c := r.one(n, fmt.Sprintf("cases[%d].", i), form.Case)
		if line := names[c.Name]; line > 0 && c.Name != "" {
			r.problem(n, "choose another name", "the case %q is in line %d already", c.Name, line)
		}
		names[c.Name] = c.Line
		f.Cases = append(f.Cases, c)
	}
}

func (r *reader) one(n *yaml.Node, at string, defaults Case) *Case {
	var form struct {
		Case   `yaml:",inline"`
		Expect yaml.Node `yaml:"expect"`
	}
	form.Case = defaults
	form.Env, form.Stubs = maps.Clone(defaults.Env), maps.Clone(defaults.Stubs)
	triggers := slices.ContainsFunc(Triggers, func(key string) bool { return has(n, key) })
	if triggers { // they replace the trigger of the file
		form.Trigger = Trigger{}
	}
	_ = n.Decode(&form)
	form.below(r.dir)
	c := &form.Case
	c.Line = n.Line
	r.names(r.root, at, &c.Input)
	if triggers {
		r.oneTrigger(n, &c.Input)
	}
	r.together(n, &c.Input)
	if key, e, found := wire.NodeAt(r.root, at+"expect"); found && r.fits(at+"expect") {
		c.Expect = r.expect(key, resolve(e), n.Style&yaml.FlowStyle != 0)
		if e.Kind == yaml.AliasNode {
			c.Expect.noRun.line = 0 // another case has it
		}
	} else if r.fits(at+"expect") && form.Expect.Kind == yaml.MappingNode {
		c.Expect = r.expect(nil, &form.Expect, false) // of a merge, which is not updated
	} else if len(n.Content) > 1 {
		c.Expect.expectNoRun(n.Content[len(n.Content)-2], "expect: {runs: 0}", n.Style&yaml.FlowStyle != 0)
	}
	return c
}

// has reports whether a mapping has a key itself.
func has(n *yaml.Node, key string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

func (r *reader) oneTrigger(n *yaml.Node, in *Input) {
	if set := in.triggers(); len(set) > 1 {
		r.problem(n, "split it into several cases", "a case has at most one of %s: this one has %s", strings.Join(Triggers, ", "),
			strings.Join(set, " and "))
	}
}

// together checks that what a case sets itself has the keys that it needs, in the case or the defaults.
func (r *reader) together(n *yaml.Node, in *Input) {
	if has(n, "from") && has(n, "objects") && len(in.Objects) > 0 {
		r.problem(n, "remove objects", "the objects of from are those of its contexts")
	}
	for _, need := range []struct {
		set, ok bool
		problem string
	}{
		{has(n, "together") && in.Together, len(in.Events) > 0, "together needs event"},
		{has(n, "body") && in.Body != "" || has(n, "header") && len(in.Headers) > 0, in.HTTP != "", "body and header need http"},
		{has(n, "as") && in.As != "" || has(n, "as-group") && len(in.AsGroups) > 0, in.Review != nil || in.HTTP != "",
			"as and as-group need review or http"},
	} {
		if need.set && !need.ok {
			r.problem(n, "", "%s", need.problem)
		}
	}
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// names checks the names of variables and programs that are written at a path.
func (r *reader) names(root *yaml.Node, at string, in *Input) {
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		if key, _, found := wire.NodeAt(root, at+"env."+name); found && !variable.MatchString(name) {
			r.problem(key, "use letters, digits and _", "%q is no name of a variable", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Stubs)) {
		if key, _, found := wire.NodeAt(root, at+"stub."+name); found && (strings.ContainsAny(name, "/ \t\n") || name == "") {
			r.problem(key, "", "a stub replaces a program in PATH: %q is no name of a file", name)
		}
	}
}
