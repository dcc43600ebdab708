package testfile

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Outcome is a case and its result; a case that could not be run has none.
type Outcome struct {
	Case   *Case
	Actual *Actual
}

// emptyExpect is a line with expectations that have no value, up to the place of it, and the comment of the line.
var emptyExpect = regexp.MustCompile(`^([ -]*expect:) *(?:\{ *\}|~|null)? *(#.*)?$`)

// Update returns the text of the file with the results in place of empty expectations, and with "runs: 0" in each case that caused no run
// and does not expect a number. All other lines stay.
func (f *File) Update(outcomes []Outcome) []byte {
	lines := strings.Split(string(f.text), "\n")
	for _, o := range slices.Backward(outcomes) { // two cases may share a line
		if o.Actual == nil {
			continue
		}
		if at := o.Case.Expect.noRun; at.line > 0 && o.Actual.Values["runs"] == int64(0) && !o.Case.Expect.Has("runs") {
			line := []rune(lines[at.line-1])
			lines[at.line-1] = string(line[:at.column-1]) + at.text + string(line[at.column-1:])
		}
		if o.Case.Expect.empty == 0 {
			continue
		}
		line := &lines[o.Case.Expect.empty-1]
		if m := emptyExpect.FindStringSubmatch(*line); m != nil {
			*line = strings.TrimRight(m[1]+" "+encode(o.Actual.recorded())+" "+m[2], " ")
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// recorded is what an empty expectation becomes, in one line.
func (a *Actual) recorded() *yaml.Node {
	all := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	add := func(key string, v any) {
		all.Content = append(all.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, nodeOf(v))
	}
	add("exit", a.Exit)
	if runs := a.Values["runs"]; runs == int64(0) {
		add("runs", runs)
	}
	for _, key := range []string{"operations", "metrics", "admission", "conversion", "http"} {
		if v := a.Values[key]; v != nil {
			add(key, v)
		}
	}
	return all
}
