package testfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json"
)

// Problem is an error in a test file.
type Problem struct {
	Line, Column  int
	Message, Hint string
}

// reader reads a test file, and collects the problems.
type reader struct {
	// dir is what paths are relative to.
	dir  string
	root *yaml.Node
	// broken are the paths of what does not fit the schema.
	broken   []string
	problems []Problem
}

func (r *reader) problem(n *yaml.Node, hint, format string, args ...any) {
	r.problems = append(r.problems, Problem{n.Line, n.Column, fmt.Sprintf(format, args...), hint})
}

// fits reports whether what is at a path, and below, fits the schema.
func (r *reader) fits(path string) bool {
	return !slices.ContainsFunc(r.broken, func(broken string) bool { return strings.HasPrefix(broken, path) })
}

// resolve follows aliases.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// duplicates reports the keys that a mapping has twice, and removes the second one.
func (r *reader) duplicates(n *yaml.Node, path string) {
	seen := map[string]bool{}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); {
		key := n.Content[i]
		if seen[key.Value] {
			r.problem(key, "keep one of them", "%s", named(strings.TrimPrefix(path+"."+key.Value, "."), "is there twice"))
			n.Content = slices.Delete(n.Content, i, i+2)
			continue
		}
		seen[key.Value] = true
		r.duplicates(n.Content[i+1], strings.TrimPrefix(path+"."+key.Value, "."))
		i += 2
	}
	for i, item := range n.Content {
		if n.Kind == yaml.SequenceNode {
			r.duplicates(item, fmt.Sprintf("%s[%d]", path, i))
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
