package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// eachYAMLDocument yields the documents of a YAML stream, until do returns false. Scalars are accepted as strings.
func eachYAMLDocument(text []byte, do func(*patchDocument) bool) error {
	if onlyComments(text) {
		return nil // rather than one empty document
	}
	if tooLarge(text) {
		return errTooLarge
	}
	number := 0
	for node, err := range Documents(text) {
		if number++; err != nil {
			problem, hint := SyntaxError(text, err)
			return fmt.Errorf("document %d: %s", number, strings.TrimSuffix(problem+": "+hint, ": "))
		}
		d, err := yamlDocument(node)
		if err != nil {
			return fmt.Errorf("document %d, %w", number, err)
		}
		if !do(d) {
			return nil
		}
	}
	return nil
}

// A document of YAML is a tree in memory, of some 300 bytes for each scalar, list and mapping. One of up to smallDocument bytes is read in
// any case, a larger one if it has few of the characters that separate them.
const smallDocument, maxDocument, maxMarks = 512 << 10, 4 << 20, 300_000

var errTooLarge = fmt.Errorf("a document of YAML has more than %d MiB, or %d separators: write JSON", maxDocument>>20, maxMarks)

func tooLarge(text []byte) bool {
	size, marks := 0, 0
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("---")) {
			size, marks = 0, 0
		}
		size += len(line)
		for _, b := range line {
			switch b {
			case ',', ':', '-', '?', '[', '{', '\n':
				marks++
			}
		}
		if size > smallDocument && marks > maxMarks || size > maxDocument {
			return true
		}
	}
	return false
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
			value = asText(value)
		}
	case *bool:
		if value.Decode(into) == nil { // also "yes"
			return strconv.AppendBool(nil, *into), nil
		}
	}
	if text, err = YAMLToJSON(value); err != nil {
		err = fmt.Errorf("%s %w", key, err)
	}
	return text, err
}

// YAMLToJSON returns a node as JSON. It keeps the text of timestamps and keys.
func YAMLToJSON(node *yaml.Node) (json.RawMessage, error) {
	if err := checkAliases(node); err != nil {
		return nil, err
	}
	if err := keepTexts(node, map[*yaml.Node]bool{}); err != nil {
		return nil, err
	}
	var tree any
	if err := node.Decode(&tree); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return json.Marshal(tree)
}

// asText is a scalar as a text. It is a copy: aliases of the scalar keep its type.
func asText(scalar *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: scalar.Value, Line: scalar.Line, Column: scalar.Column}
}

// keepTexts makes texts of what JSON has no type for, and of the keys of mappings.
func keepTexts(node *yaml.Node, seen map[*yaml.Node]bool) error {
	if node == nil || seen[node] {
		return nil
	}
	seen[node] = true
	if node.ShortTag() == "!!timestamp" || node.ShortTag() == "!!binary" {
		node.Tag = "!!str"
	}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && child.ShortTag() != "!!merge" {
			if child.Kind == yaml.AliasNode {
				child = child.Alias
			}
			if child.Kind != yaml.ScalarNode {
				return errors.New("has a key that is not text")
			}
			node.Content[i] = asText(child)
			continue
		}
		if err := keepTexts(child, seen); err != nil {
			return err
		}
	}
	return keepTexts(node.Alias, seen)
}
