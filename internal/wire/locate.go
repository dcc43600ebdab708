package wire

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Locate returns the line and column, from 1, of a path such as "kubernetes[1].jqFilter" in a configuration. For a missing
// key it is the position of the object that lacks it. It returns 0 if the text is no YAML.
func Locate(output []byte, path, problem string) (line, column int) {
	if m := inOutput.FindStringSubmatch(problem); m != nil && path == "" {
		line, _ = strconv.Atoi(m[1])
		return line, 1
	}
	doc, err := FirstDocument(output)
	if err != nil {
		return 0, 0
	}
	key, _, _ := NodeAt(doc.Content[0], path)
	return key.Line, key.Column
}

// inOrder sorts violations by their place in a text.
func inOrder(output []byte, violations []Violation) {
	doc, err := FirstDocument(output)
	if err != nil || len(violations) < 2 {
		return
	}
	place := map[string]*yaml.Node{}
	for _, v := range violations {
		place[v.Path], _, _ = NodeAt(doc.Content[0], v.Path)
	}
	slices.SortStableFunc(violations, func(a, b Violation) int {
		return cmp.Or(place[a.Path].Line-place[b.Path].Line, place[a.Path].Column-place[b.Path].Column)
	})
}

// inOutput matches the line in errors about the whole output: a syntax error, a second document.
var inOutput = regexp.MustCompile(`(?:^the output [^:]*:|begins in) line (\d+)`)

// NodeAt returns the key or the list item at a path such as "kubernetes[1].jqFilter", and its value. Of a path that does not exist it
// returns the deepest part that does.
func NodeAt(node *yaml.Node, path string) (key, value *yaml.Node, found bool) {
	key, value = node, node
	for rest := path; rest != ""; {
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if index, after, ok := strings.Cut(rest, "]"); ok && strings.HasPrefix(index, "[") {
			i, err := strconv.Atoi(index[1:])
			if err != nil || value.Kind != yaml.SequenceNode || i >= len(value.Content) {
				return key, value, false
			}
			value = value.Content[i]
			key, rest = value, strings.TrimPrefix(after, ".")
			continue
		}
		next := child(value, rest)
		if next < 0 {
			return key, value, false
		}
		key, value = value.Content[next], value.Content[next+1]
		rest = strings.TrimPrefix(rest[len(key.Value):], ".")
	}
	return key, value, true
}

// child is the index of the key in a mapping with which a path begins, or -1. Keys may have dots.
func child(node *yaml.Node, path string) (index int) {
	index = -1
	if node.Kind != yaml.MappingNode {
		return index
	}
	longest := -1
	for i := len(node.Content) - 2; i >= 0; i -= 2 { // the last of duplicate keys counts
		key, end := node.Content[i].Value, len(node.Content[i].Value)
		begins := len(path) >= end && strings.EqualFold(key, path[:end]) && (len(path) == end || strings.IndexByte(".[", path[end]) >= 0)
		if begins && end > longest {
			index, longest = i, end
		}
	}
	return index
}
