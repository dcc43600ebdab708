package testfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/shell-operator/shell-operator/internal/wire"
)

// reader reads a test file, and collects the problems.
type reader struct {
	// dir is what paths are relative to.
	dir  string
	root *yaml.Node
	// broken are the paths of what does not fit the schema.
	broken   []string
	problems []Failure
}

func (r *reader) problem(n *yaml.Node, hint, format string, args ...any) {
	r.problems = append(r.problems, Failure{Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...), Hint: hint})
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

// items returns the items of a list, or a single value.
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

// value returns a node as a tree of JSON.
func value(n *yaml.Node) (any, error) {
	text, err := wire.YAMLToJSON(resolve(n))
	if err != nil {
		return nil, err
	}
	return Tree(text)
}

// Manifests returns the objects of a file as JSON: its documents, and the items of lists.
func Manifests(text []byte) (objects [][]byte, err error) {
	for n, err := range wire.Documents(text) {
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
	return objects, nil
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

// Tree returns JSON text as map[string]any, []any, string, bool, int64, float64 and nil.
func Tree(text []byte) (tree any, err error) {
	err = json.Unmarshal(text, &tree)
	return tree, err
}
