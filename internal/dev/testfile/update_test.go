package testfile

import (
	"fmt"
	"testing"
)

// TestUpdate: an update replaces empty expectations, and nothing else.
func TestUpdate(t *testing.T) {
	const text = `cases:
- name: a
  expect:%s # soon
- {name: b, expect: {}}
- {name: c, expect: }
- expect: %s
  name: d
- name: e
  expect:
    exact: true
- name: f
- name: g
  expect: {runs: 2} # not met
- name: h
  expect: &h {}
- name: i
  expect: {
  }
- name: j
  expect: %s`
	const actual = "{exit: 3, operations: [{name: 'a: b', operation: Delete}], metrics: []}"
	before, after := fmt.Sprintf(text, "", "~", "{}"), fmt.Sprintf(text, " "+actual, actual, actual)
	f, problems := Parse("/tests/a_test.yaml", []byte(before))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var outcomes []Outcome
	for _, c := range f.Cases {
		outcomes = append(outcomes, Outcome{c, &Actual{Exit: 3, Error: "x", Values: map[string]any{"runs": int64(1),
			"operations": []any{map[string]any{"operation": "Delete", "name": "a: b"}}, "metrics": []any{}}}})
	}
	if got := string(f.Update(outcomes)); got != after {
		t.Errorf("got\n%s\nwant\n%s", got, after)
	}
}
