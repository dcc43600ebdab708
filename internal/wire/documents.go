package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// Documents yields the documents of a text in JSON or YAML as document nodes, and an error at most once, as the last one.
//
// A document that begins with { or [ and is valid as JSON is JSON: parsers of YAML reject surrogate pairs, \/, tabs and long keys.
func Documents(text []byte) iter.Seq2[*yaml.Node, error] {
	return func(yield func(*yaml.Node, error) bool) {
		offset, at := 0, &position{text: text, line: 1, column: 1}
		for {
			start, value := jsonAt(text, offset)
			if value == nil {
				break
			}
			if offset = start + len(value); !yield(at.document(start, value), nil) {
				return
			}
		}
		passed := strings.Repeat("\n", bytes.Count(text[:offset], []byte("\n"))) // lines are counted from the begin of the text
		for dec := yaml.NewDecoder(io.MultiReader(strings.NewReader(passed), bytes.NewReader(text[offset:]))); ; {
			node := new(yaml.Node)
			err := dec.Decode(node)
			if errors.Is(err, io.EOF) || !yield(node, err) || err != nil {
				return
			}
		}
	}
}

// FirstDocument returns the first document of a text, or io.EOF.
func FirstDocument(text []byte) (*yaml.Node, error) {
	for doc, err := range Documents(text) {
		return doc, err
	}
	return nil, io.EOF
}

// SyntaxError describes an error of the decoder of a text, with its line. Decoders have several words for a tab in the indentation, and may
// report the line before it.
func SyntaxError(text []byte, err error) (problem, hint string) {
	problem = strings.TrimPrefix(err.Error(), "yaml: ")
	reported, number := 1, 0
	_, _ = fmt.Sscanf(problem, "line %d:", &reported)
	if !strings.Contains(problem, "tab") && !strings.Contains(problem, "cannot start any token") {
		return problem, ""
	}
	for line := range bytes.Lines(text) {
		if number++; number >= reported && bytes.Contains(line[:len(line)-len(bytes.TrimLeft(line, " \t"))], []byte("\t")) {
			return fmt.Sprintf("line %d: a tab is in the indentation", number), "indent with spaces"
		}
	}
	return problem, ""
}

// FirstAsJSON returns the first document of a text in JSON or YAML as JSON, by the rules of YAML 1.1, as Kubernetes has them.
func FirstAsJSON(text []byte) ([]byte, error) {
	if _, value := jsonAt(text, 0); value != nil {
		// Characters in place of their escapes, and 10 in place of 10.0.
		return jsontext.AppendFormat(nil, value, lenientJSON, jsontext.CanonicalizeRawFloats(true))
	}
	return sigsyaml.YAMLToJSON(text)
}

// jsonAt returns the document at an offset and where it starts; nil if it is not JSON. A line of dashes may be before it.
func jsonAt(text []byte, offset int) (start int, value []byte) {
	rest := bytes.TrimLeft(text[offset:], space)
	if len(rest) > 3 && string(rest[:3]) == "---" && strings.IndexByte(space, rest[3]) >= 0 {
		rest = bytes.TrimLeft(rest[3:], space)
	}
	if !beginsJSON(rest) {
		return 0, nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(rest), lenientJSON)
	value, err := dec.ReadValue()
	if err != nil {
		return 0, nil
	}
	// A mapping may be a key of YAML, and what follows a document without dashes is an error of YAML.
	after := bytes.TrimLeft(rest[len(value):], space)
	if len(after) > 0 && after[0] != '#' && !bytes.HasPrefix(after, []byte("---")) && !beginsJSON(after) {
		return 0, nil
	}
	return len(text) - len(rest), value
}

const space = " \t\r\n"

func beginsJSON(text []byte) bool { return len(text) > 0 && (text[0] == '{' || text[0] == '[') }

// position counts lines and columns of a text.
type position struct {
	text                 []byte
	offset, line, column int
}

// document returns the document node of a valid JSON value that starts at an offset.
func (p *position) document(start int, value []byte) *yaml.Node {
	n := p.node(start, jsontext.NewDecoder(bytes.NewBuffer(value), lenientJSON))
	return &yaml.Node{Kind: yaml.DocumentNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{n}}
}

// node returns the next value of a decoder whose input starts at an offset.
func (p *position) node(start int, dec *jsontext.Decoder) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	kind := dec.PeekKind()
	if kind != '{' && kind != '[' {
		value, _ := dec.ReadValue()
		p.move(n, start+int(dec.InputOffset())-len(value))
		if n.Value = string(value); kind == '"' {
			text, _ := jsontext.AppendUnquote(nil, value)
			n.Tag, n.Style, n.Value = "!!str", yaml.DoubleQuotedStyle, string(text)
		}
		return n
	}
	n.Kind, n.Tag, n.Style = yaml.MappingNode, "!!map", yaml.FlowStyle
	if kind == '[' {
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	}
	_, _ = dec.ReadToken()
	p.move(n, start+int(dec.InputOffset())-1)
	for end := kind + 2; dec.PeekKind() != end; { // } and ] are two after { and [
		n.Content = append(n.Content, p.node(start, dec))
	}
	_, _ = dec.ReadToken()
	return n
}

// move sets the place of a node at an offset, which is not before that of the last node.
func (p *position) move(n *yaml.Node, offset int) {
	passed := p.text[p.offset:offset]
	if lines := bytes.Count(passed, []byte("\n")); lines > 0 {
		p.line, p.column = p.line+lines, 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	p.offset, p.column = offset, p.column+utf8.RuneCount(passed)
	n.Line, n.Column = p.line, p.column
}
