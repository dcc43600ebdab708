package testfile

import (
	"bytes"
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Outcome is a case and its result.
type Outcome struct {
	Case   *Case
	Actual *Actual
}

// change replaces the lines from first to end, without it, by a text.
type change struct {
	first, end int
	text       string
	// of is the index of the case, want are its expectations afterwards.
	of   int
	want map[string]any
}

// Update returns the text of the file with the actual values in place of the expectations that are not met. All lines of other expectations
// stay, and the new text has the same values everywhere else: expectations with anchors, and those of cases in braces, stay as they are. So
// do those that would check nothing any more: objects that are missing, references that exist, patterns without any output.
func (f *File) Update(outcomes []Outcome) []byte {
	var changes []change
	for _, o := range outcomes {
		if of := slices.Index(f.Cases, o.Case); of >= 0 {
			if c, ok := f.change(&o.Case.Expect, o.Actual); ok {
				c.of = of
				changes = append(changes, c)
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return a.first - b.first })
	if text := f.with(changes); f.same(text, changes) {
		return text
	}
	var certain []change
	for _, c := range changes {
		if more := append(slices.Clone(certain), c); f.same(f.with(more), more) {
			certain = more
		}
	}
	return f.with(certain)
}

// lines are those of the file, with their ends.
func (f *File) lines() []string {
	lines := strings.SplitAfter(strings.TrimSuffix(string(f.text), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	return lines
}

// with makes changes, which are in the order of their lines.
func (f *File) with(changes []change) []byte {
	if len(changes) == 0 {
		return f.text
	}
	var b bytes.Buffer
	lines, next := f.lines(), 0
	for _, c := range changes {
		b.WriteString(strings.Join(lines[next:c.first], "") + c.text)
		next = c.end
	}
	b.WriteString(strings.Join(lines[next:], ""))
	return b.Bytes()
}

// same reports whether a text has the values of the file but for the expectations that changes replace.
func (f *File) same(text []byte, changes []change) bool {
	got, problems := Parse(f.Path, text)
	if len(problems) > 0 || len(got.Cases) != len(f.Cases) || got.Hook != f.Hook {
		return false
	}
	want := map[int]map[string]any{}
	for _, c := range changes {
		want[c.of] = c.want
	}
	for i := range f.Cases {
		before, after := *f.Cases[i], *got.Cases[i]
		if want[i] == nil {
			want[i] = before.Expect.values()
		}
		if !reflect.DeepEqual(after.Expect.values(), want[i]) {
			return false
		}
		before.Expect, after.Expect, after.Line = Expect{}, Expect{}, before.Line
		if !reflect.DeepEqual(before, after) {
			return false
		}
	}
	return true
}

// values are the expectations as they are written.
func (e *Expect) values() map[string]any {
	values := map[string]any{}
	if e.node != nil {
		v, _ := value(e.node) // it was read before
		written, _ := v.(map[string]any)
		maps.Copy(values, written)
	}
	return values
}

// anchored reports whether the text of an expectation may be elsewhere, too.
func (e *Expect) anchored() bool {
	return e.node.Anchor != "" || slices.ContainsFunc(e.Keys, func(x Expected) bool { return x.node.Anchor != "" })
}

// change returns how the expectations of a case become met.
func (f *File) change(e *Expect, a *Actual) (c change, ok bool) {
	if e.key == nil || e.inFlow || e.anchored() {
		return c, false
	}
	edits, added := e.edits(a)
	if len(edits)+len(added) == 0 {
		return c, false
	}
	all := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	for i := 0; e.node.Kind == yaml.MappingNode && i+1 < len(e.node.Content); i += 2 {
		pair, edited := edits[e.node.Content[i]]
		if !edited {
			pair = e.node.Content[i : i+2]
		}
		all.Content = append(all.Content, pair...)
	}
	all.Content = append(all.Content, added...)
	v, err := value(all)
	c.want, _ = v.(map[string]any)
	lines := f.lines()
	c.first, c.end = e.key.Line-1, endOf(lines, e.key)
	if e.flow {
		before := lines[c.first][:e.key.Column-1] // it may have the dash of the case
		c.text = before + strings.TrimLeft(written(e.key, pairOf(e.key, e.node, all)...), " ")
	} else {
		c.text = e.block(lines[:c.end], edits, added)
	}
	return c, err == nil
}

// block returns the lines of expectations after edits; lines end with those before.
func (e *Expect) block(lines []string, edits map[*yaml.Node][]*yaml.Node, added []*yaml.Node) string {
	content := e.node.Content
	text := strings.Join(lines[e.key.Line-1:content[0].Line-1], "")
	for i, key := range content {
		if i%2 > 0 {
			continue
		}
		end := len(lines)
		if i+2 < len(content) {
			end = content[i+2].Line - 1
		}
		own := endOf(lines[:end], key)
		if pair, edited := edits[key]; edited {
			text += written(key, pair...)
		} else {
			text += strings.Join(lines[key.Line-1:own], "")
		}
		text += strings.Join(lines[own:end], "") // comments of the next key
	}
	return text + written(content[0], added...)
}

// edits returns the pairs of key and value that replace those of a key, and pairs that are added.
func (e *Expect) edits(a *Actual) (edits map[*yaml.Node][]*yaml.Node, added []*yaml.Node) {
	edits = map[*yaml.Node][]*yaml.Node{}
	for _, x := range e.Keys {
		if x.Key == "error" && a.Error == "" {
			edits[x.key] = nil
			if !e.Has("exit") {
				edits[x.key] = []*yaml.Node{keyOf("exit"), nodeOf(0)}
			}
		} else if v, differs := e.updated(x, a); differs {
			edits[x.key] = pairOf(x.key, x.node, inStyleOf(x, nodeOf(v)))
		}
	}
	add := func(key string, v any) { added = append(added, keyOf(key), nodeOf(v)) }
	switch {
	case len(e.Keys) == 0:
		add("exit", a.Exit)
		for _, key := range []string{"operations", "metrics", "admission", "conversion", "http"} {
			if v := a.Values[key]; v != nil {
				add(key, v)
			}
		}
	case a.Exit != 0 && !e.Has("exit") && !e.Has("error"):
		add("exit", a.Exit)
	}
	return edits, added
}

// longest is the length of lines above which values become blocks.
const longest = 100

// inStyleOf returns a value in the style of an expectation, unless the line would be too long.
func inStyleOf(x Expected, n *yaml.Node) *yaml.Node {
	isBlock := x.node.Kind != yaml.ScalarNode && x.node.Style&yaml.FlowStyle == 0
	if n.Kind == yaml.ScalarNode || isBlock {
		return n
	}
	n.Style |= yaml.FlowStyle
	if len(encode(n))+x.key.Column+len(x.Key) > longest {
		n.Style &^= yaml.FlowStyle
	}
	return n
}

// pairOf returns a key with a new value, and the comment of its line.
func pairOf(key, old, n *yaml.Node) []*yaml.Node {
	k, comment := keyOf(key.Value), cmp.Or(old.LineComment, key.LineComment)
	if n.Style&yaml.FlowStyle == 0 && len(n.Content) > 0 {
		k.LineComment = comment
	} else {
		n.LineComment = comment
	}
	return []*yaml.Node{k, n}
}

// written are pairs of key and value in the column of a key.
func written(at *yaml.Node, pair ...*yaml.Node) string {
	if len(pair) == 0 {
		return ""
	}
	return indented(encode(&yaml.Node{Kind: yaml.MappingNode, Content: pair}), at.Column-1)
}

// endOf returns the line after the value of a key: after the lines that are indented more, but before comments and blank lines.
func endOf(lines []string, key *yaml.Node) int {
	end := key.Line
	for at := key.Line; at < len(lines); at++ {
		rest := strings.TrimLeft(lines[at], " ")
		switch indent := len(lines[at]) - len(rest); {
		case strings.TrimSpace(rest) == "" || rest[0] == '#':
		case indent > key.Column-1 || indent == key.Column-1 && strings.HasPrefix(rest, "- "):
			end = at + 1
		default:
			return end
		}
	}
	return end
}

// updated returns the value of an expectation that would be met, and whether it is another one.
func (e *Expect) updated(x Expected, a *Actual) (updated any, differs bool) {
	if e.met(x, a) {
		return nil, false
	}
	actual := a.of(x)
	switch x.Key {
	case "error":
		return escape(a.Error), true
	case "stdout", "stderr":
		lines := actual.([]any)
		escaped := make([]any, len(lines))
		for i, line := range lines {
			escaped[i] = escape(line.(string))
		}
		return escaped, len(lines) > 0
	case "absent":
		return nil, false
	case "runs", "exit":
		return actual, true
	case "admission", "conversion", "http", "result":
		if got, _ := actual.(map[string]any); len(got) == 0 {
			return nil, false
		}
	}
	m := e.matcher(x.Key)
	m.keepNames = !e.Exact
	updated = m.project(x.Value, actual)
	if list, ok := updated.([]any); ok && x.Key == "after" {
		for i := range list {
			if list[i] == nil { // no file can expect an object that does not exist
				list[i] = x.Value.([]any)[i]
			}
		}
	}
	return updated, !reflect.DeepEqual(updated, x.Value)
}

// escape returns a pattern that only the text matches.
func escape(text string) string { return strings.ReplaceAll(text, "*", `\*`) }

// named returns a key.
func keyOf(key string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: key} }

// nodeOf returns a tree of JSON as a node.
func nodeOf(v any) *yaml.Node {
	var n yaml.Node
	_ = n.Encode(v) // no tree of JSON fails
	return &n
}

// encode writes a value.
func encode(n *yaml.Node) string {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(n); err != nil {
		return ""
	}
	return b.String()
}

// indented puts blanks before each line of a text that has some.
func indented(text string, n int) string {
	prefix := strings.Repeat(" ", n)
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			lines[i] = prefix + line
		}
	}
	return strings.Join(lines, "")
}
