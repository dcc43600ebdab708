package testfile

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	godiff "github.com/rogpeppe/go-internal/diff"
	"go.yaml.in/yaml/v3"
)

// wildcards turns a quoted pattern into a regular expression.
var wildcards = strings.NewReplacer(`\\\*`, `\*`, `\\`, `\\`, `\*`, `.*`)

// matches reports whether a pattern is the whole text: * is any text, \* itself.
func matches(pattern, text string) bool {
	whole, err := regexp.Compile(`(?s)^` + wildcards.Replace(regexp.QuoteMeta(pattern)) + `$`)
	return err == nil && whole.MatchString(text)
}

// matcher compares values of one key.
type matcher struct {
	// exact compares all fields.
	exact bool
	// subset permits further items in the outermost list.
	subset bool
	// durations: texts are equal that are the same duration: 5m and 300s.
	durations bool
	// patterns are the paths whose texts are patterns: "" is the value, "*" an item of a list, a name a field.
	patterns []string
}

func (e *Expect) matcher(key string) matcher {
	m := matcher{exact: e.Exact, subset: e.Subset && slices.Contains([]string{"operations", "metrics", "calls"}, key)}
	switch key {
	case "calls":
		m.patterns = []string{"/*/*"}
	case "admission":
		m.patterns = []string{"/message", "/warnings/*"}
	case "conversion":
		m.patterns = []string{"/failure"}
	case "result":
		m.patterns, m.durations = []string{"/giveUp", "/message"}, true
	case "http":
		m.patterns = []string{"/body", "/headers/*"}
	}
	return m
}

func (m *matcher) match(expected, actual any) bool {
	want, isList := expected.([]any)
	got, gotList := actual.([]any)
	if !m.subset || !isList || !gotList {
		return m.same(expected, actual, "")
	}
	at := 0
	for _, item := range want {
		for at < len(got) && !m.same(item, got[at], "/*") {
			at++
		}
		if at == len(got) {
			return false
		}
		at++
	}
	return true
}

func (m *matcher) same(expected, actual any, path string) bool {
	switch want := expected.(type) {
	case map[string]any:
		got, ok := actual.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range want {
			there, has := got[key]
			if value == nil {
				if has && there != nil {
					return false
				}
			} else if !m.same(value, there, m.below(path, key)) {
				return false
			}
		}
		if m.exact {
			for key, value := range got {
				if _, named := want[key]; !named && value != nil {
					return false
				}
			}
		}
		return true
	case []any:
		if len(want) == 0 && actual == nil && path == "/patch" { // of an admission answer
			return true
		}
		got, ok := actual.([]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for i := range want {
			if !m.same(want[i], got[i], path+"/*") {
				return false
			}
		}
		return true
	case string:
		got, ok := actual.(string)
		return ok && (got == want || slices.Contains(m.patterns, path) && matches(want, got) || m.durations && sameDuration(want, got))
	case int64:
		if got, ok := actual.(float64); ok {
			return float64(want) == got
		}
	case float64:
		if got, ok := actual.(int64); ok {
			return want == float64(got)
		}
	}
	return reflect.DeepEqual(expected, actual)
}

func sameDuration(a, b string) bool {
	one, oneErr := time.ParseDuration(a)
	other, otherErr := time.ParseDuration(b)
	return oneErr == nil && otherErr == nil && one == other
}

// below is the path of a field. Any header is a pattern.
func (m *matcher) below(path, key string) string {
	if slices.Contains(m.patterns, path+"/*") {
		return path + "/*"
	}
	return path + "/" + key
}

// reduce reduces an actual value to the fields that are expected. What matches is shown as expected.
func (m *matcher) reduce(expected, actual any, path string) any {
	if m.same(expected, actual, path) && !m.exact {
		return expected
	}
	switch want := expected.(type) {
	case map[string]any:
		got, ok := actual.(map[string]any)
		if !ok {
			return actual
		}
		reduced := map[string]any{}
		for key, value := range got {
			inner, named := want[key]
			switch {
			case named && inner == nil, !named && m.exact:
				reduced[key] = value
			case named:
				reduced[key] = m.reduce(inner, value, m.below(path, key))
			}
		}
		for key, value := range want {
			if value == nil && reduced[key] == nil {
				reduced[key] = nil
			}
		}
		return reduced
	case []any:
		got, ok := actual.([]any)
		if !ok {
			return actual
		}
		reduced := make([]any, len(got))
		for i := range got {
			if reduced[i] = got[i]; i < len(want) {
				reduced[i] = m.reduce(want[i], got[i], path+"/*")
			}
		}
		return reduced
	}
	return actual
}

// render returns the lines of a value as YAML.
func render(v any) []string { return strings.Split(encode(nodeOf(v)), "\n") }

// nodeOf returns a tree of JSON as a node.
func nodeOf(v any) *yaml.Node {
	var n yaml.Node
	_ = n.Encode(v) // no tree of JSON fails
	return &n
}

// encode writes a value, without a line end.
func encode(n *yaml.Node) string {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(n); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Diff returns the lines of two trees of JSON in one list, the common ones once; none if the trees are equal.
func Diff(before, after any) []string {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	return diff(render(before), render(after))
}

// diff returns the lines of both sides in one list, the common ones once.
func diff(expected, actual []string) (lines []string) {
	text := func(lines []string) (text []byte) {
		for _, line := range lines {
			text = append(text, line+"\n"...)
		}
		return text
	}
	next := 0 // line of expected
	common := func(end int) {
		for _, line := range expected[next:end] {
			lines = append(lines, "  "+line)
		}
		next = end
	}
	unified := strings.Split(string(godiff.Diff("", text(expected), "", text(actual))), "\n")
	for i := 3; i+1 < len(unified); i++ { // a head of three lines comes first, nothing last
		line := unified[i]
		if line[0] == '@' {
			var first, count int
			_, _ = fmt.Sscanf(line, "@@ -%d,%d", &first, &count)
			common(first - min(count, 1)) // without lines of expected, first is the one before
			continue
		}
		if line[0] != '+' {
			next++
		}
		lines = append(lines, line[:1]+" "+line[1:])
	}
	common(len(expected))
	return lines
}
