package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// eachYAMLDocument yields the documents of a YAML stream. Scalars are accepted as strings.
func eachYAMLDocument(text []byte, do func(patchDocument)) error {
	if onlyComments(text) {
		return nil // rather than one empty document
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for number := 1; ; number++ {
		var node yaml.Node
		err := dec.Decode(&node)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("document %d: %s", number, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		d, err := yamlDocument(&node)
		if err != nil {
			return fmt.Errorf("document %d, %w", number, err)
		}
		do(d)
	}
}

func onlyComments(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

func yamlDocument(node *yaml.Node) (patchDocument, error) {
	var d patchDocument
	root := node
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	switch {
	case root.Kind == 0 || root.ShortTag() == "!!null":
		return d, nil
	case root.Kind != yaml.MappingNode:
		return d, fmt.Errorf("line %d: %w", root.Line, errNoObject)
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if err := d.set(key.Value, value); err != nil {
			return d, fmt.Errorf("line %d: %s %w", value.Line, key.Value, err)
		}
	}
	return d, nil
}

func (d *patchDocument) set(key string, value *yaml.Node) (err error) {
	switch into := d.field(key).(type) {
	case *string:
		if value.Kind != yaml.ScalarNode {
			return errors.New("must be a string")
		}
		if value.ShortTag() != "!!null" {
			*into = value.Value
		}
	case *ownText:
		if into.mistyped = value.Kind != yaml.ScalarNode; value.ShortTag() != "!!null" {
			into.text = value.Value
		}
	case *bool:
		if value.ShortTag() == "!!null" {
			return nil
		}
		if err := value.Decode(into); err != nil || value.Kind != yaml.ScalarNode {
			return errors.New("must be true or false")
		}
	case *json.RawMessage:
		*into, err = yamlToJSON(value)
	default:
		d.unknown = append(d.unknown, key)
	}
	return err
}

// yamlToJSON keeps the text of timestamps and converts keys to strings.
func yamlToJSON(node *yaml.Node) (json.RawMessage, error) {
	if err := checkAliases(node); err != nil {
		return nil, err
	}
	keepTimes(node, map[*yaml.Node]bool{})
	var tree any
	if err := node.Decode(&tree); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	tree, err := textKeys(tree)
	if err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

func keepTimes(node *yaml.Node, seen map[*yaml.Node]bool) {
	if seen[node] {
		return
	}
	seen[node] = true
	if node.ShortTag() == "!!timestamp" || node.ShortTag() == "!!binary" {
		node.Tag = "!!str"
	}
	if node.Alias != nil {
		keepTimes(node.Alias, seen)
	}
	for _, child := range node.Content {
		keepTimes(child, seen)
	}
}

func textKeys(tree any) (any, error) {
	var err error
	switch tree := tree.(type) {
	case map[string]any:
		for k, v := range tree {
			if tree[k], err = textKeys(v); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, v := range tree {
			if tree[i], err = textKeys(v); err != nil {
				return nil, err
			}
		}
	case map[any]any:
		texts := make(map[string]any, len(tree))
		for k, v := range tree {
			switch k.(type) {
			case map[string]any, map[any]any, []any:
				return nil, errors.New("has a key that is not text")
			}
			if texts[fmt.Sprint(k)], err = textKeys(v); err != nil {
				return nil, err
			}
		}
		return texts, nil
	}
	return tree, nil
}
