package testfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestProblems reads mistakes in test files. Each file of testdata/problems has mistakes and, in the section "problems", how they are
// reported.
func TestProblems(t *testing.T) {
	golden.Archives(t, "testdata/problems/*.txt", func(_ *testing.T, a *txtar.Archive) *txtar.Archive {
		out := &txtar.Archive{Comment: a.Comment}
		var report strings.Builder
		for _, f := range a.Files {
			if f.Name == "problems" {
				continue
			}
			out.Files = append(out.Files, f)
			_, problems := Parse("/tests/"+f.Name, f.Data)
			for _, p := range problems {
				fmt.Fprintf(&report, "%s:%d:%d: %s", f.Name, p.Line, p.Column, p.Message)
				if p.Hint != "" {
					fmt.Fprintf(&report, " (%s)", p.Hint)
				}
				report.WriteString("\n")
			}
			if len(problems) == 0 {
				fmt.Fprintf(&report, "%s: no problem\n", f.Name)
			}
		}
		out.Files = append(out.Files, txtar.File{Name: "problems", Data: []byte(report.String())})
		return out
	})
}

func TestPatterns(t *testing.T) {
	for _, row := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"", "", true}, {"*", "", true}, {"*", "a\nb", true}, {"a*", "abc", true}, {"*c", "abc", true},
		{"a*c", "ac", true}, {"a*b*c", "a1b2c", true}, {"a*b*c", "acb", false}, {"ab*ba", "aba", false}, {`\*`, "*", true}, {`\*`, "a", false},
		{`a\*b*`, "a*bc", true}, {`a\b`, `a\b`, true}, {"*a*a*", "a", false},
	} {
		if got := matches(row.pattern, row.text); got != row.want {
			t.Errorf("%q and %q: got %t", row.pattern, row.text, got)
		}
	}
}

func TestManifests(t *testing.T) {
	got, err := Manifests([]byte(`
# Anchors, octal numbers and dates are those of YAML; JSON has none of them.
apiVersion: v1
kind: ConfigMap
metadata: &m {name: a, creationTimestamp: 2024-01-01}
spec: {mode: 0644, on: yes, ratio: 1.50, none: ~}
---
a: &a {kind: A, spec: {n: 1}}
b: &b {kind: B, apiVersion: v1}
<<: [*a, *b]
---
---
{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "n": 9007199254740993}]}
`))
	want := []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":"2024-01-01","name":"a"},"spec":{"mode":420,"none":null,` +
			`"on":"yes","ratio":1.5}}`,
		`{"a":{"kind":"A","spec":{"n":1}},"apiVersion":"v1","b":{"apiVersion":"v1","kind":"B"},"kind":"A","spec":{"n":1}}`,
		`{"apiVersion":"v1","kind":"Pod","n":9007199254740993}`,
	}
	var texts []string
	for _, o := range got {
		texts = append(texts, string(o))
	}
	if err != nil || !reflect.DeepEqual(texts, want) {
		t.Errorf("got %q, %v", texts, err)
	}
	for text, want := range map[string]string{
		"a: [":             "line 1: did not find expected node content",
		"- a":              "line 1: this is no object: it has no apiVersion and kind",
		"apiVersion: v1\n": "line 1: an object has no kind",
		"\n\nkind: Pod\n":  "line 3: an object has no apiVersion",
		"a: 1\n<<: [5]\n":  "map merge requires map or sequence of maps as the value",
	} {
		if _, err := Manifests([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// FuzzParse: no text makes the reader panic, and an update changes the expectations and nothing before the first or after the last one.
func FuzzParse(f *testing.F) {
	f.Add([]byte("cases:\n- name: a\n  tick: b\n  expect: {runs: 2}\n"))
	f.Add([]byte("cases:\n- name: a\n  tick: b\n  expect:\n    stdout: [x]\n  # c\n- {name: b, expect: }\n"))
	f.Add([]byte("cases:\n- {name: a, tick: b, expect: {after: [{kind: a, metadata: {name: b}}]}}\n"))
	f.Add([]byte("cases:\n- name: a\n  expect: {stdout: [5\" disk], runs: 3} # 'tis\n- name: b\n  expect:\n    error: |\n      " +
		"x\n    exit: 1\n"))
	f.Add([]byte("cases: [{name: 'it''s', event: [{Added: a/b}], expect: {error: \"}\"}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, problems := Parse("/tests/a_test.yaml", text)
		if len(problems) > 0 {
			return
		}
		var outcomes []Outcome
		actual := &Actual{Values: map[string]any{"runs": int64(1), "stdout": []any{}, "stderr": []any{}},
			Present: func(string) bool { return false }, Object: func(map[string]any) (any, string) { return nil, "" }}
		for _, c := range file.Cases {
			outcomes = append(outcomes, Outcome{c, actual})
		}
		updated := file.Update(outcomes)
		again, problems := Parse(file.Path, updated)
		if len(problems) > 0 {
			t.Fatalf("%q was updated to %q: %v", text, updated, problems)
		}
		for i, c := range again.Cases {
			if c.Name != file.Cases[i].Name || !reflect.DeepEqual(c.Input, file.Cases[i].Input) {
				t.Errorf("%q was updated to %q: case %d is different", text, updated, i)
			}
		}
		outcomes = nil
		for _, c := range again.Cases {
			outcomes = append(outcomes, Outcome{c, actual})
		}
		if twice := again.Update(outcomes); !bytes.Equal(twice, updated) {
			t.Errorf("%q was updated to %q, and then to %q", text, updated, twice)
		}
		if bytes.Count(text, []byte("#")) == 0 && bytes.Contains(updated, []byte("#")) {
			t.Errorf("%q was updated to %q", text, updated)
		}
	})
}

// A key without a value in a case removes the value that the file sets, so the key needs no trigger.
func TestEmptyKeysOfCases(t *testing.T) {
	f, problems := Parse("pods_test.yaml", []byte(`hook: pods.sh
as: ann
as-group: [team]
body: request.json
header: {A: b}
cases:
- {name: tick, tick: nightly, as: "", as-group: [], body: "", header: []}
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if in := f.Cases[0].Input; in.As != "" || len(in.AsGroups) > 0 || in.Body != "" || len(in.Headers) > 0 {
		t.Errorf("an empty key does not replace that of the file: %+v", in)
	}
}

// TestFindThroughLink searches the directory that a link leads to.
func TestFindThroughLink(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a_test.yaml"), nil, 0o600), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	if files, err := Find([]string{link}); err != nil || len(files) != 1 || files[0] != filepath.Join(link, "a_test.yaml") {
		t.Errorf("got %v, %v", files, err)
	}
}
