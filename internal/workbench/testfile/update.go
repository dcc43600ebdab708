package testfile

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Outcome is a case and what came of it.
type Outcome struct {
	Case   *Case
	Actual *Actual
}

// Update returns the text of the file with the actual values in place of the expectations that are not met. All other bytes stay.
func (f *File) Update(outcomes []Outcome) []byte {
	outcomes = slices.Clone(outcomes)
	// From the end, so that places before stay.
	slices.SortFunc(outcomes, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(b.Case.Expect.Line, a.Case.Expect.Line), cmp.Compare(b.Case.Expect.Column, a.Case.Expect.Column))
	})
	text := f.text
	for _, o := range outcomes {
		e := &o.Case.Expect
		if e.Line > 0 && (len(e.Keys) == 0 || len(e.Compare(o.Actual, o.Case.Line)) > 0) {
			text = replace(text, e, e.actual(o.Actual))
		}
	}
	return text
}

// actual returns the expectation that would be met: the same keys, or those that there are in general.
func (e *Expect) actual(a *Actual) *yaml.Node {
	root := &yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, v any) {
		var k, n yaml.Node
		_ = k.Encode(key) // these are trees of JSON
		_ = n.Encode(v)
		root.Content = append(root.Content, &k, &n)
	}
	for _, option := range []struct {
		key string
		set bool
	}{{"exact", e.Exact}, {"subset", e.Subset}} {
		if option.set {
			add(option.key, true)
		}
	}
	keys := e.Keys
	if len(keys) == 0 {
		keys = []Expected{{Key: "exit"}, {Key: "operations"}, {Key: "metrics"}}
		for _, answer := range []struct {
			key string
			is  bool
		}{{"admission", a.Admission != nil}, {"conversion", a.Conversion != nil}, {"http", a.HTTP != nil}} {
			if answer.is {
				keys = append(keys, Expected{Key: answer.key})
			}
		}
	}
	for _, x := range keys {
		actual := a.of(x)
		switch x.Key {
		case "error":
			if a.Error == "" {
				continue
			}
			if expected, _ := x.Value.(string); matches(expected, a.Error) {
				actual = expected
			} else {
				actual = escape(a.Error)
			}
		case "stdout", "stderr":
			if lines := actual.([]string); !allPrinted(x.Value, lines) {
				escaped := make([]any, len(lines))
				for i, line := range lines {
					escaped[i] = escape(line)
				}
				actual = escaped
			} else {
				actual = x.Value
			}
		case "absent":
			kept := []any{}
			for _, ref := range x.Value.([]any) {
				if !a.Present(ref.(string)) {
					kept = append(kept, ref)
				}
			}
			actual = kept
		case "calls":
			if m := e.matcher(x.Key); x.Value != nil && m.match(x.Value, actual) {
				actual = x.Value
			}
		default:
			if m := e.matcher(x.Key); x.Value != nil {
				actual = m.project(x.Value, actual)
			}
			if list, ok := actual.([]any); ok && x.Key == "after" { // no file can expect an object that is not there
				actual = slices.DeleteFunc(list, func(object any) bool { return object == nil })
			}
		}
		add(x.Key, actual)
	}
	if a.Exit != 0 && !slices.ContainsFunc(keys, func(x Expected) bool { return x.Key == "exit" }) {
		add("exit", int64(a.Exit))
	}
	return root
}

func allPrinted(patterns any, lines []string) bool {
	list, _ := patterns.([]any)
	for _, pattern := range list {
		if !slices.ContainsFunc(lines, func(l string) bool { return matches(pattern.(string), l) }) {
			return false
		}
	}
	return list != nil
}

// escape returns a pattern that only the text matches.
func escape(text string) string { return strings.ReplaceAll(text, "*", `\*`) }

// replace puts a value in the place of an expectation.
func replace(text []byte, e *Expect, value *yaml.Node) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	start := 0
	for _, line := range lines[:e.Line-1] {
		start += len(line)
	}
	if e.flow {
		start += e.Column - 1
		value.Style = yaml.FlowStyle
		if e.empty {
			return splice(text, start, start, " "+encode(value, 0))
		}
		return splice(text, start, endOfFlow(text, start), encode(value, 0))
	}
	// The value is a block: it ends before the first line that is not indented as far.
	end := start
	for at, line := range lines[e.Line-1:] {
		trimmed := strings.TrimLeft(string(line), " ")
		if at > 0 && strings.TrimSpace(trimmed) != "" && len(line)-len(trimmed) < e.Column-1 {
			break
		}
		end += len(line)
	}
	for end > start { // blank lines and comments after it stay
		from := bytes.LastIndexByte(text[:end-1], '\n') + 1
		if last := strings.TrimSpace(string(text[from:end])); last != "" && !strings.HasPrefix(last, "#") {
			break
		}
		end = from
	}
	newText := encode(value, e.Column-1)
	if text[end-1] != '\n' {
		newText = strings.TrimSuffix(newText, "\n")
	}
	return splice(text, start, end, newText)
}

func splice(text []byte, start, end int, with string) []byte {
	return slices.Concat(text[:start], []byte(with), text[end:])
}

// encode writes a value with an indentation; a flow value has one line.
func encode(n *yaml.Node, indent int) string {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return ""
	}
	text := b.String()
	if n.Style == yaml.FlowStyle {
		return strings.TrimSpace(text)
	}
	prefix := strings.Repeat(" ", indent)
	return prefix + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+prefix) + "\n"
}

// endOfFlow returns the offset after the flow value that begins at start.
func endOfFlow(text []byte, start int) int {
	depth, quote := 0, byte(0)
	for i := start; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"', c == '\'' && bytes.IndexByte([]byte(" [{:,"), text[i-1]) >= 0:
			quote = c
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}
