package testfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Append returns the text of a test file with a case for a recording at its end; a text of zero bytes becomes a file with one case. from is
// the path of the recording as the file names it. All other bytes stay.
func Append(text []byte, name, from string) ([]byte, error) {
	if len(text) == 0 {
		text = []byte("cases: []\n")
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, plain(err)
	}
	var cases *yaml.Node
	if len(root.Content) > 0 && root.Content[0].Kind == yaml.MappingNode {
		for i, n := range root.Content[0].Content {
			if i%2 == 1 && root.Content[0].Content[i-1].Value == "cases" {
				cases = n
			}
		}
	}
	if cases == nil || cases.Kind != yaml.SequenceNode {
		return nil, errors.New("it has no list of cases")
	}
	lines := strings.SplitAfter(string(text), "\n")
	if last := len(lines) - 1; lines[last] != "" {
		lines[last] += "\n"
		lines = append(lines, "")
	}
	switch indent := cases.Column - 1; {
	case len(cases.Content) == 0: // []
		at := cases.Line - 1
		lines[at] = strings.Replace(lines[at], "[]", "", 1)
		lines[at] = strings.TrimRight(lines[at], " \n") + "\n" + item("", name, from)
	case cases.Style&yaml.FlowStyle != 0:
		return nil, errors.New("its cases are in brackets: write them as a list with dashes")
	default: // after the lines that are indented more, but before blank ones
		at := cases.Content[len(cases.Content)-1].Line
		end := at
		for ; at < len(lines); at++ {
			rest := strings.TrimLeft(lines[at], " ")
			if strings.TrimSpace(rest) == "" {
				continue
			}
			if len(lines[at])-len(rest) <= indent {
				break
			}
			end = at + 1
		}
		lines = slices.Insert(lines, end, item(strings.Repeat(" ", indent), name, from))
	}
	newText := []byte(strings.Join(lines, ""))
	f, problems := Parse("", newText)
	if len(problems) > 0 {
		return nil, fmt.Errorf("line %d: %s", problems[0].Line, problems[0].Message)
	}
	if added := f.Cases[len(f.Cases)-1]; len(f.Cases) != len(cases.Content)+1 || added.Name != name || added.From != from {
		return nil, errors.New("the end of its cases is not found: add the case by hand")
	}
	return newText, nil
}

// item is the text of a case.
func item(indent, name, from string) string {
	return fmt.Sprintf("%[1]s- name: %[2]s\n%[1]s  from: %[3]s\n%[1]s  expect: {exit: 0}\n", indent, quoted(name), quoted(from))
}

func quoted(text string) string {
	var n yaml.Node
	n.SetString(text)
	if strings.Contains(text, "\n") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return strings.TrimSuffix(encode(&n), "\n")
}
