package testfile

import "testing"

// TestUpdate: an update replaces empty expectations, and nothing else.
func TestUpdate(t *testing.T) {
	const before = `cases:
- name: a
  expect: # soon
- {name: b, expect: {}}
- {name: c, expect: }
- expect: ~
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
  expect: {}`
	const after = `cases:
- name: a
  expect: {exit: 3, operations: [{name: 'a: b', operation: Delete}], metrics: []} # soon
- {name: b, expect: {}}
- {name: c, expect: }
- expect: {exit: 3, operations: [{name: 'a: b', operation: Delete}], metrics: []}
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
  expect: {exit: 3, operations: [{name: 'a: b', operation: Delete}], metrics: []}`
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
