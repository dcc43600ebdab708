package testfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/shell-operator/shell-operator/internal/spelling"
)

// Problem is an error in a test file.
type Problem struct {
	Line, Column  int
	Message, Hint string
}

// reader reads a test file, and collects the problems.
type reader struct {
	// dir is what paths are relative to.
	dir      string
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
func (r *reader) pairs(n *yaml.Node, what string, visit func(key, value *yaml.Node)) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.problem(n, "", "%s must be a mapping, it is %s", what, kind(n))
		return
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
		for _, item := range items(n) {
			var one string
			r.text(what, &one)(item)
			*into = append(*into, one)
		}
	}
}

// items are those of a list, or a single value.
func items(n *yaml.Node) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return []*yaml.Node{n}
	}
	list := slices.Clone(n.Content)
	for i := range list {
		list[i] = resolve(list[i])
	}
	return list
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
		if n.Decode(&i) == nil {
			return i, nil
		}
		fallthrough
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

// plain returns an error of the YAML library in the form "line N: …".
func plain(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "yaml: ")) }

// Tree returns JSON text as the values that value returns.
func Tree(text []byte) (tree any, err error) {
	err = json.Unmarshal(text, &tree)
	return tree, err
}
