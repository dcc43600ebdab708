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

// edit replaces the bytes from start to end.
type edit struct {
	start, end int
	with       string
}

// change is what an update does to the expectations of a case.
type change struct {
	edits []edit
	// at is the index of the case, want the expectations after the edits.
	at   int
	want map[string]any
}

// Update returns the text of the file with the actual values in place of the expectations that are not met. All other bytes stay, and the
// new text has the same values everywhere else: expectations whose end is not certain, such as those with anchors, stay as they are. So do
// those that would check nothing any more: objects that are missing, references that exist, patterns without any output.
func (f *File) Update(outcomes []Outcome) []byte {
	before, ok := tree(f.text)
	if !ok {
		return f.text
	}
	var changes []change
	for _, o := range outcomes {
		e := &o.Case.Expect
		at := slices.Index(f.Cases, o.Case)
		if at < 0 || e.key == nil || e.anchored() {
			continue
		}
		if c, ok := f.changes(e, o.Actual); ok {
			c.at = at
			changes = append(changes, c)
		}
	}
	// From the end, so that places before stay.
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(b.edits[0].start, a.edits[0].start) })
	if text := apply(f.text, changes...); same(text, before, changes) {
		return text
	}
	text := f.text
	var applied []change
	for _, c := range changes {
		next := apply(text, c)
		if all := append(slices.Clone(applied), c); same(next, before, all) {
			text, applied = next, all
		}
	}
	return text
}

// apply makes the edits of changes, which are in the order from the end of the text.
func apply(text []byte, changes ...change) []byte {
	for _, c := range changes {
		for _, e := range c.edits {
			text = slices.Concat(text[:e.start], []byte(e.with), text[e.end:])
		}
	}
	return text
}

// same reports whether a text has the values before the changes but for the expectations that they replace.
func same(text []byte, before any, changes []change) bool {
	after, ok := tree(text)
	if !ok {
		return false
	}
	if _, problems := Parse("", text); len(problems) > 0 {
		return false
	}
	root, _ := before.(map[string]any)
	cases, _ := root["cases"].([]any)
	cases = slices.Clone(cases)
	for _, c := range changes {
		old, _ := cases[c.at].(map[string]any)
		updated := maps.Clone(old)
		updated["expect"] = c.want
		cases[c.at] = updated
	}
	want := maps.Clone(root)
	want["cases"] = cases
	return reflect.DeepEqual(want, after)
}

func tree(text []byte) (any, bool) {
	var root yaml.Node
	if yaml.Unmarshal(text, &root) != nil || len(root.Content) == 0 {
		return nil, false
	}
	v, err := value(root.Content[0])
	return v, err == nil
}

// anchored reports whether the text of an expectation may be elsewhere, too.
func (e *Expect) anchored() bool {
	return e.node.Anchor != "" || slices.ContainsFunc(e.Keys, func(x Expected) bool { return x.node.Anchor != "" })
}

// changes returns how the expectations of a case become met.
func (f *File) changes(e *Expect, a *Actual) (c change, ok bool) {
	if len(e.Keys) == 0 {
		return f.first(e, a)
	}
	v, err := value(e.node)
	if err != nil {
		return c, false
	}
	c.want, _ = v.(map[string]any)
	// From the last key to the first one.
	var missing string
	if a.Exit != 0 && !e.Has("exit") && !e.Has("error") {
		missing = "exit"
	}
	for i := len(e.Keys) - 1; i >= 0; i-- {
		x := e.Keys[i]
		start, end, found := f.extent(x.key, x.node, e.flow)
		if !found {
			return c, false
		}
		if missing != "" && i == len(e.Keys)-1 {
			c.edits = append(c.edits, f.added(e, x.key, end, missing+": "+flow(int64(a.Exit))))
			c.want[missing] = int64(a.Exit)
		}
		if x.Key == "error" && a.Error == "" {
			c.edits = append(c.edits, f.succeeds(e, i, start, end))
			delete(c.want, "error")
			if !e.Has("exit") {
				c.want["exit"] = int64(0)
			}
			continue
		}
		updated, differs := e.updated(x, a)
		if !differs {
			continue
		}
		c.want[x.Key] = updated
		c.edits = append(c.edits, f.replaced(x, start, end, e.flow, updated))
	}
	return c, len(c.edits) > 0
}

// first returns the change of a case that expects nothing yet.
func (f *File) first(e *Expect, a *Actual) (c change, ok bool) {
	root := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	c.want = map[string]any{}
	add := func(key string, v any) {
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, nodeOf(v))
		c.want[key] = v
	}
	if e.Exact {
		add("exact", true)
	}
	if e.Subset {
		add("subset", true)
	}
	add("exit", int64(a.Exit))
	add("operations", append([]any{}, a.Operations...))
	add("metrics", append([]any{}, a.Metrics...))
	for _, answer := range []struct {
		key string
		is  map[string]any
	}{{"admission", a.Admission}, {"conversion", a.Conversion}, {"http", a.HTTP}} {
		if answer.is != nil {
			add(answer.key, answer.is)
		}
	}
	start, end, found := f.extent(e.key, e.node, e.inFlow)
	if !found {
		return c, false
	}
	with := encode(root)
	switch {
	case e.empty:
		start, with = end, " "+with
	case f.text[end-1] == '\n':
		with += "\n"
	}
	c.edits = []edit{{start, end, with}}
	return c, true
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
		lines := actual.([]string)
		escaped := make([]any, len(lines))
		for i, line := range lines {
			escaped[i] = escape(line)
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

// replaced returns the edit that replaces the value of a key. It keeps its style, unless the line would be long.
func (f *File) replaced(x Expected, start, end int, inFlow bool, v any) edit {
	text := flow(v)
	block := encode(nodeOf(v))
	const longest = 100
	switch isBlock := x.node.Kind != yaml.ScalarNode && x.node.Style&yaml.FlowStyle == 0; {
	case inFlow:
	case isBlock:
		start = bytes.LastIndexByte(f.text[:start], '\n') + 1
		if text == "[]" || text == "{}" {
			if colon := len(bytes.TrimRight(f.text[:start], " \r\n")); f.text[colon-1] == ':' {
				return edit{colon, end, " " + text + "\n"}
			}
			return edit{start, end, strings.Repeat(" ", x.key.Column+1) + text + "\n"}
		}
		return edit{start, end, indented(block, x.node.Column-1)}
	case len(text)+x.node.Column > longest && strings.Count(block, "\n") > 1:
		line := end + bytes.IndexByte(append(f.text[end:len(f.text):len(f.text)], '\n'), '\n')
		rest := strings.TrimRight(string(f.text[end:line]), " \r")
		with := strings.TrimLeft(rest, " ") + "\n" + strings.TrimSuffix(indented(block, x.key.Column+1), "\n")
		if rest == "" { // no blank at the end of the line
			start = len(bytes.TrimRight(f.text[:start], " "))
		}
		return edit{start, line, with}
	}
	if end > start && f.text[end-1] == '\n' { // of a block scalar
		text += "\n"
	}
	return edit{start, end, text}
}

// added returns the edit that adds a key after the last one, which ends at end.
func (f *File) added(e *Expect, last *yaml.Node, end int, text string) edit {
	if e.flow {
		return edit{end, end, ", " + text}
	}
	at := f.lineEnd(end)
	line := strings.Repeat(" ", last.Column-1) + text + "\n"
	if f.text[at-1] != '\n' {
		line = "\n" + strings.TrimSuffix(line, "\n")
	}
	return edit{at, at, line}
}

// lineEnd is the offset after the line in which a value ends.
func (f *File) lineEnd(end int) int {
	if end > 0 && f.text[end-1] == '\n' {
		return end
	}
	if i := bytes.IndexByte(f.text[end:], '\n'); i >= 0 {
		return end + i + 1
	}
	return len(f.text)
}

// succeeds returns the edit that removes the error which key i expects; without another expectation of the status, the run must succeed.
func (f *File) succeeds(e *Expect, i, start, end int) edit {
	key := f.offset(e.Keys[i].key)
	switch {
	case !e.Has("exit"):
		with := "exit: 0"
		if f.text[end-1] == '\n' {
			with += "\n"
		}
		return edit{key, end, with}
	case !e.flow:
		return edit{bytes.LastIndexByte(f.text[:key], '\n') + 1, f.lineEnd(end), ""}
	case i+1 < len(e.Keys):
		return edit{key, f.offset(e.Keys[i+1].key), ""}
	}
	return edit{len(bytes.TrimRight(f.text[:key], ", \n")), end, ""}
}

// offset returns that of the first byte of a node.
func (f *File) offset(n *yaml.Node) int {
	at := 0
	for line := 1; line < n.Line; line++ {
		next := bytes.IndexByte(f.text[at:], '\n')
		if next < 0 {
			return len(f.text)
		}
		at += next + 1
	}
	for range n.Column - 1 { // columns count characters
		if at == len(f.text) {
			return at
		}
		at++
		for at < len(f.text) && f.text[at]&0xc0 == 0x80 {
			at++
		}
	}
	return at
}

// extent returns the offsets of the value of a key. The YAML library knows where nodes begin, not where they end: the value ends where the
// text from its key on is read as this value for the first time.
func (f *File) extent(key, node *yaml.Node, inFlow bool) (start, end int, found bool) {
	want, err := value(node)
	if err != nil || node.Line < key.Line || node.Line == key.Line && node.Column < key.Column {
		return 0, 0, false
	}
	from := f.offset(key)
	open, closed := strings.Repeat(" ", key.Column-1), ""
	if inFlow {
		open, closed = "{", "\n}"
	}
	is := func(end int) bool {
		v, ok := tree(slices.Concat([]byte(open), f.text[from:end], []byte(closed)))
		pair, _ := v.(map[string]any)
		got, has := pair[key.Value]
		return ok && has && len(pair) == 1 && reflect.DeepEqual(got, want)
	}
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" && node.Value == "" { // nothing after the colon
		at := from + bytes.IndexByte(append(f.text[from:len(f.text):len(f.text)], ':'), ':') + 1
		return at, at, at <= len(f.text) && is(at)
	}
	start = f.offset(node)
	for end = start + 1; end <= len(f.text); end++ {
		if f.mayEnd(node, end) && is(end) {
			return start, end, true
		}
	}
	return 0, 0, false
}

// mayEnd excludes most offsets at which a value does not end.
func (f *File) mayEnd(n *yaml.Node, end int) bool {
	last := f.text[end-1]
	switch {
	case n.Style&yaml.FlowStyle != 0:
		return last == '}' || last == ']'
	case n.Kind != yaml.ScalarNode, n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return last == '\n' || end == len(f.text)
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return last == '"'
	case n.Style&yaml.SingleQuotedStyle != 0:
		return last == '\''
	}
	return end == len(f.text) || strings.IndexByte(" \t\r\n,}]", f.text[end]) >= 0
}

// nodeOf returns a tree of JSON as a node.
func nodeOf(v any) *yaml.Node {
	var n yaml.Node
	_ = n.Encode(v) // no tree of JSON fails
	return &n
}

// flow writes a value in one line.
func flow(v any) string {
	n := nodeOf(v)
	n.Style |= yaml.FlowStyle
	if n.Kind == yaml.ScalarNode {
		if n.Style &^= yaml.FlowStyle | yaml.LiteralStyle; strings.ContainsAny(n.Value, "\n,[]{}") && n.ShortTag() == "!!str" {
			n.Style = yaml.DoubleQuotedStyle // it may be in braces
		}
	}
	return strings.TrimSpace(encode(n))
}

// encode writes a value; a flow value has one line.
func encode(n *yaml.Node) string {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return ""
	}
	if n.Style == yaml.FlowStyle {
		return strings.TrimSpace(b.String())
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
