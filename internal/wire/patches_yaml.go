package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// eachYAMLDocument yields the documents of a YAML stream. Scalars are accepted as strings.
func eachYAMLDocument(text []byte, do func(*patchDocument)) error {
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

func yamlDocument(node *yaml.Node) (*patchDocument, error) {
	d := new(patchDocument)
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
		key, value := root.Content[i].Value, root.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		text, err := d.textOf(key, value)
		if err == nil {
			err = d.set(key, text)
		}
		if err != nil {
			return d, fmt.Errorf("line %d: %w", value.Line, err)
		}
	}
	return d, nil
}

// textOf is the value of a key as JSON; of an unknown one it is nil.
func (d *patchDocument) textOf(key string, value *yaml.Node) (text []byte, err error) {
	switch into := d.field(key).(type) {
	case nil:
		return nil, nil
	case *string:
		if value.Kind == yaml.ScalarNode && value.ShortTag() != "!!null" {
			value.Tag = "!!str"
		}
	case *bool:
		if value.Decode(into) == nil { // also "yes"
			return strconv.AppendBool(nil, *into), nil
		}
	}
	if text, err = yamlToJSON(value); err != nil {
		err = fmt.Errorf("%s %w", key, err)
	}
	return text, err
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
