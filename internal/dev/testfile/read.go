package testfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/shell-operator/shell-operator/internal/spelling"
)

// Problem is an error in a test file.
type Problem struct {
	Line, Column  int
	Message, Hint string
}

// reader reads nodes of YAML and collects the problems.
type reader struct {
	problems []Problem
	// key is that of the value that is read.
	key *yaml.Node
}

func (r *reader) problem(n *yaml.Node, hint, format string, args ...any) {
	r.problems = append(r.problems, Problem{n.Line, n.Column, fmt.Sprintf(format, args...), hint})
}

// resolve follows aliases.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// kind is the type of a node in the words of the format.
func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			return "empty"
		case "!!bool":
			return "a boolean"
		case "!!int", "!!float":
			return "a number"
		}
	}
	return "text"
}

// pairs calls visit for each key of a mapping, in order.
func (r *reader) pairs(n *yaml.Node, what string, visit func(key, value *yaml.Node)) bool {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.problem(n, "", "%s must be a mapping, it is %s", what, kind(n))
		return false
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			r.problem(key, "keep one of them", "%s has the key %q twice", what, key.Value)
			continue
		}
		seen[key.Value] = true
		visit(key, resolve(n.Content[i+1]))
	}
	return true
}

// keys reads a mapping with known keys, and returns those that it has.
func (r *reader) keys(n *yaml.Node, what string, known map[string]func(*yaml.Node)) map[string]bool {
	set := map[string]bool{}
	r.pairs(n, what, func(key, value *yaml.Node) {
		read, ok := known[key.Value]
		if !ok {
			r.problem(key, suggest(key.Value, slices.Sorted(maps.Keys(known))), "%s has no key %q", what, key.Value)
			return
		}
		set[key.Value], r.key = true, key
		read(value)
	})
	return set
}

func (r *reader) text(what string, into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
			r.problem(n, "", "%s must be text, it is %s", what, kind(n))
			return
		}
		*into = n.Value
	}
}

func (r *reader) truth(what string, into *bool) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Decode(into) != nil {
			r.problem(n, "write true or false", "%s must be a boolean, it is %s", what, kind(n))
		}
	}
}

func (r *reader) number(what string, least int, into *int) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(into) != nil {
			r.problem(n, "", "%s must be a whole number, it is %s", what, kind(n))
		} else if *into < least {
			r.problem(n, "", "%s must be at least %d", what, least)
		}
	}
}

// texts reads one text, or a list of them.
func (r *reader) texts(what string, into *[]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = []string{}
		if n.Kind != yaml.SequenceNode {
			var one string
			r.text(what, &one)(n)
			*into = append(*into, one)
			return
		}
		for _, item := range n.Content {
			var one string
			r.text(what, &one)(resolve(item))
			*into = append(*into, one)
		}
	}
}

// suggest names the known key that is most like a word.
func suggest(word string, known []string) string {
	if key := spelling.Nearest(word, known); key != "" {
		return fmt.Sprintf("did you mean %q?", key)
	}
	return "its keys are " + strings.Join(known, ", ")
}

// value returns a node as a tree of JSON: map[string]any, []any, string, bool, int64, float64 and nil.
func value(n *yaml.Node) (any, error) {
	n = resolve(n)
	switch n.Kind {
	case yaml.MappingNode:
		tree := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			v, err := value(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			if n.Content[i].ShortTag() == "!!merge" {
				if !merge(tree, v) {
					return nil, fmt.Errorf("line %d: << needs a mapping or a list of mappings", n.Content[i].Line)
				}
				continue
			}
			tree[n.Content[i].Value] = v
		}
		return tree, nil
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			var err error
			if list[i], err = value(item); err != nil {
				return nil, err
			}
		}
		return list, nil
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, fmt.Errorf("line %d: a value is missing", n.Line)
}

// merge adds the fields of one mapping, or of several, that a mapping lacks: the first one that has a field wins.
func merge(into map[string]any, from any) bool {
	sources, isList := from.([]any)
	if !isList {
		sources = []any{from}
	}
	for _, source := range sources {
		fields, ok := source.(map[string]any)
		if !ok {
			return false
		}
		for key, inherited := range fields {
			if _, own := into[key]; !own {
				into[key] = inherited
			}
		}
	}
	return true
}

func scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int":
		var i int64
		if err := n.Decode(&i); err == nil {
			return i, nil
		}
		var f float64
		err := n.Decode(&f)
		return f, err
	case "!!float":
		var f float64
		err := n.Decode(&f)
		return f, err
	case "!!binary":
		return nil, fmt.Errorf("line %d: binary values have no form in JSON", n.Line)
	}
	return n.Value, nil
}

// Manifests returns the objects of a file as JSON: its documents, and the items of lists.
func Manifests(text []byte) (objects [][]byte, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, plain(err)
		}
		tree, err := value(n.Content[0])
		if err != nil {
			return nil, err
		}
		if tree == nil {
			continue
		}
		if objects, err = appendObjects(objects, n.Content[0].Line, tree); err != nil {
			return nil, err
		}
	}
}

func appendObjects(objects [][]byte, line int, tree any) ([][]byte, error) {
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("line %d: this is no object: it has no apiVersion and kind", line)
	}
	if items, isList := object["items"].([]any); isList {
		for _, item := range items {
			var err error
			if objects, err = appendObjects(objects, line, item); err != nil {
				return nil, err
			}
		}
		return objects, nil
	}
	for _, key := range []string{"apiVersion", "kind"} {
		if text, _ := object[key].(string); text == "" {
			return nil, fmt.Errorf("line %d: an object has no %s", line, key)
		}
	}
	text, err := json.Marshal(object)
	return append(objects, text), err
}

var yamlPlace = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// plain returns an error of the YAML library in the form "line N: …".
func plain(err error) error {
	line, text := placeOf(err)
	if line == 0 {
		return errors.New(text)
	}
	return fmt.Errorf("line %d: %s", line, text)
}

func placeOf(err error) (line int, text string) {
	m := yamlPlace.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, err.Error()
	}
	line, _ = strconv.Atoi(m[1])
	return line, strings.TrimPrefix(err.Error(), m[0])
}

// Tree returns JSON text as the values that value returns.
func Tree(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	return numbers(tree), nil
}

func numbers(tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	}
	return tree
}
