package wire

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Locate finds the place of a configuration that a path such as "kubernetes[1].jqFilter" leads to, as line and column
// from 1. Where the path leads to something that is missing, it is the place of what should have it. A problem of a
// filter says where in the filter it is, and the place is there. It returns 0 when there is nothing to find.
func Locate(output []byte, path, problem string) (line, column int) {
	if m := inOutput.FindStringSubmatch(problem); m != nil && path == "" {
		line, _ = strconv.Atoi(m[1])
		return line, 1
	}
	var doc yaml.Node
	if yaml.Unmarshal(output, &doc) != nil || len(doc.Content) == 0 {
		return 0, 0
	}
	key, value, found := step(doc.Content[0], path)
	if found && value.Kind == yaml.ScalarNode {
		if m := inFilter.FindStringSubmatch(problem); m != nil && strings.HasSuffix(path, "jqFilter") {
			l, _ := strconv.Atoi(m[1])
			c, _ := strconv.Atoi(m[2])
			return insideScalar(output, value, l, c)
		}
	}
	return key.Line, key.Column
}

// inOutput is how problems of the whole output mention a line: a syntax error, a second document.
var inOutput = regexp.MustCompile(`(?:^the output [^:]*:|begins in) line (\d+)`)

// inFilter is how package jq mentions a place in a filter.
var inFilter = regexp.MustCompile(`at line (\d+), column (\d+)$`)

// step follows a path as far as it goes: it returns the key, or the list item, and its value.
func step(node *yaml.Node, path string) (key, value *yaml.Node, found bool) {
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
		name := rest
		if end := strings.IndexAny(rest, ".["); end >= 0 {
			name = rest[:end]
		}
		next := child(value, name)
		if next < 0 {
			return key, value, false
		}
		key, value = value.Content[next], value.Content[next+1]
		rest = strings.TrimPrefix(rest[len(name):], ".")
	}
	return key, value, true
}

// child is the index of a key in a map, -1 if it is not there.
func child(node *yaml.Node, name string) int {
	if node.Kind != yaml.MappingNode {
		return -1
	}
	for i := len(node.Content) - 2; i >= 0; i -= 2 { // of a key that is given twice the last one counts
		if strings.EqualFold(node.Content[i].Value, name) {
			return i
		}
	}
	return -1
}

// insideScalar is a place in a text as a place in the document that has the text.
func insideScalar(output []byte, value *yaml.Node, line, column int) (int, int) {
	switch value.Style {
	case yaml.LiteralStyle:
		lines := strings.Split(string(output), "\n")
		if at := value.Line + line - 1; at < len(lines) {
			indent := len(lines[value.Line]) - len(strings.TrimLeft(lines[value.Line], " "))
			return at + 1, indent + column
		}
	case yaml.SingleQuotedStyle, yaml.DoubleQuotedStyle:
		if line == 1 {
			return value.Line, value.Column + column
		}
	case yaml.FoldedStyle:
	default:
		if line == 1 {
			return value.Line, value.Column + column - 1
		}
	}
	return value.Line, value.Column
}
