package testfile

import (
	"testing"
)

// TestUpdate: an update replaces the lines of expectations that are not met, and nothing else.
func TestUpdate(t *testing.T) {
	pod := map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "a", "namespace": "default"},
		"spec": map[string]any{"x": int64(1)}}
	actual := func(change func(a *Actual)) *Actual {
		a := &Actual{
			Values: map[string]any{"runs": int64(1), "stdout": []any{"two", "a * b"}, "stderr": []any{}, "operations": []any{},
				"metrics": []any{}, "result": map[string]any{}},
			Present: func(ref string) bool { return ref == "pod/a" },
			Missing: func(map[string]any) string { return "there is none" },
			Object: func(want map[string]any) any {
				if m, _ := want["metadata"].(map[string]any); m["name"] == "a" {
					return pod
				}
				return nil
			},
		}
		if change != nil {
			change(a)
		}
		return a
	}
	for name, test := range map[string]struct {
		before, after string
		actual        func(*Actual)
	}{
		"a quote within a text": {
			before: "cases:\n- name: a\n  expect: {stdout: [5\" disk]}\n- name: b\n  expect: {runs: 1}\n",
			after:  "cases:\n- name: a\n  expect: {stdout: [two, a \\* b]}\n- name: b\n  expect: {runs: 1}\n",
		},
		"an apostrophe in a comment": {
			before: "cases:\n- name: a\n  expect: {runs: 2, # 'tis }\n    stdout: [two]}\n- name: b\n  expect: {runs: 3} # don't\n",
			after:  "cases:\n- name: a\n  expect: {runs: 1, # 'tis }\n    stdout: [two]}\n- name: b\n  expect: {runs: 1} # don't\n",
		},
		"quotes within words": {
			before: "cases:\n- name: a\n  expect: {stdout: [a 'b], runs: 1}\n- name: b\n  expect: {runs: 1}\n",
			after:  "cases:\n- name: a\n  expect: {stdout: [two, a \\* b], runs: 1}\n- name: b\n  expect: {runs: 1}\n",
		},
		"what is met keeps its comment and style": {
			before: "cases:\n- name: a\n  expect:\n    stdout: [\"two\"]   # exact words\n\n    # why\n    runs: 7 # seven\n    absent: [pod/b]\n",
			after:  "cases:\n- name: a\n  expect:\n    stdout: [\"two\"]   # exact words\n\n    # why\n    runs: 1 # seven\n    absent: [pod/b]\n",
		},
		"missing objects stay expected": {
			before: "cases:\n- name: a\n  expect:\n    after: [{kind: Pod, metadata: {name: b, namespace: other}}]\n    runs: 2\n",
			after:  "cases:\n- name: a\n  expect:\n    after: [{kind: Pod, metadata: {name: b, namespace: other}}]\n    runs: 1\n",
		},
		"objects that exist are updated beside them": {
			before: "cases:\n- name: a\n  expect: {after: [{kind: Pod, metadata: {name: b}}, {kind: Pod, metadata: {name: a}, " +
				"spec: {x: 2, y: 3}}]}\n",
			after: "cases:\n- name: a\n  expect: {after: [{kind: Pod, metadata: {name: b}}, {kind: Pod, metadata: {name: a}, spec: {x: 1, " +
				"\"y\": null}}]}\n",
		},
		"objects that should be absent stay so": {
			before: "cases:\n- name: a\n  expect: {absent: [pod/a, pod/b]}\n",
			after:  "cases:\n- name: a\n  expect: {absent: [pod/a, pod/b]}\n",
		},
		"no output is no expectation": {
			before: "cases:\n- name: a\n  expect: {stderr: x, runs: 2}\n",
			after:  "cases:\n- name: a\n  expect: {stderr: x, runs: 1}\n",
		},
		"no result is no expectation": {
			before: "cases:\n- name: a\n  expect: {result: {requeueAfter: 5m}}\n",
			after:  "cases:\n- name: a\n  expect: {result: {requeueAfter: 5m}}\n",
		},
		"a status is added in a block": {
			before: "cases:\n- name: a\n  expect: # all\n    runs: 1 # one\n# end\n",
			after:  "cases:\n- name: a\n  expect: # all\n    runs: 1 # one\n    exit: 3\n# end\n",
			actual: func(a *Actual) { a.Exit, a.Error = 3, "x" },
		},
		"a status is added in braces": {
			before: "cases:\n- expect: {runs: 2 }\n  name: é",
			after:  "cases:\n- expect: {runs: 1, exit: 3}\n  name: é\n",
			actual: func(a *Actual) { a.Exit, a.Error = 3, "x" },
		},
		"an error that is none any more": {
			before: "cases:\n- name: a\n  expect: {runs: 1, error: \"x*\"}\n- name: b\n  expect:\n    error: x # why\n    exit: 1\n- name: c\n  " +
				"expect: {exit: 2, error: x}\n",
			after: "cases:\n- name: a\n  expect: {runs: 1, exit: 0}\n- name: b\n  expect:\n    exit: 0\n- name: c\n  expect: {exit: 0}\n",
		},
		"an error with other words": {
			before: "cases:\n- name: a\n  expect:\n    error: |\n      x\n    runs: 1\n",
			after:  "cases:\n- name: a\n  expect:\n    error: |-\n      y, {\n      z\n    runs: 1\n",
			actual: func(a *Actual) { a.Error = "y, {\nz" },
		},
		"a block": {
			before: "cases:\n- name: a\n  expect:\n    metrics: # those\n    # of the first run\n    - name: b\n      value: 2 # two\n    # " +
				"end\n    runs: 1\n",
			after:  "cases:\n- name: a\n  expect:\n    metrics: # those\n    - name: c\n      value: 3\n    # end\n    runs: 1\n",
			actual: func(a *Actual) { a.Values["metrics"] = []any{map[string]any{"name": "c", "value": int64(3)}} },
		},
		"a block that becomes empty": {
			before: "cases:\n- name: a\n  expect:\n    metrics:\n    - name: b\n    runs: 1\n",
			after:  "cases:\n- name: a\n  expect:\n    metrics: []\n    runs: 1\n",
		},
		"short forms of metrics are updated in full": {
			before: "cases:\n- name: a\n  expect: {metrics: [{name: b, set: 2}, {name: c, add: 1}]}\n- name: d\n" +
				"  expect: {metrics: [{name: b, set: 3}, {name: c, add: 1}]}\n",
			after: "cases:\n- name: a\n  expect: {metrics: [{action: set, name: b, value: 3}, {action: add, name: c, value: 1}]}\n- name: d\n" +
				"  expect: {metrics: [{name: b, set: 3}, {name: c, add: 1}]}\n",
			actual: func(a *Actual) {
				a.Values["metrics"] = []any{map[string]any{"action": "set", "name": "b", "value": int64(3)},
					map[string]any{"action": "add", "name": "c", "value": int64(1)}}
			},
		},
		"a list that becomes long": {
			before: "cases:\n- name: a\n  expect:\n    metrics: [] # none\n    runs: 1\n",
			after: "cases:\n- name: a\n  expect:\n    metrics: # none\n    - " +
				"group: abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\n      " +
				"name: abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\n    runs: 1\n",
			actual: func(a *Actual) {
				const long = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
				a.Values["metrics"] = []any{map[string]any{"name": long, "group": long}}
			},
		},
		"nothing is expected yet": {
			before: "cases:\n- name: a\n  expect: # soon\n- {name: b, expect: {}}\n- {name: c, expect: }\n- name: d\n  expect: ~\n- name: e\n  " +
				"expect:\n    exact: true\n- name: f\n",
			after: "cases:\n- name: a\n  expect: {exit: 0, operations: [], metrics: []} # soon\n- {name: b, expect: {}}\n- {name: c, " +
				"expect: }\n- name: d\n  expect: {exit: 0, operations: [], metrics: []}\n- name: e\n  expect:\n    exact: true\n    " +
				"exit: 0\n    operations: []\n    metrics: []\n- name: f\n",
		},
		"anchors stay": {
			before: "cases:\n- name: a\n  expect: &e {runs: 2}\n- name: b\n  expect: *e\n- name: c\n  expect: {runs: 2}\n",
			after:  "cases:\n- name: a\n  expect: &e {runs: 2}\n- name: b\n  expect: *e\n- name: c\n  expect: {runs: 1}\n",
		},
		"numbers are not cut": {
			before: "cases:\n- name: a\n  expect: {metrics: [{value: 1.50}], runs: 0x10}\n",
			after:  "cases:\n- name: a\n  expect: {metrics: [{value: 2}], runs: 1}\n",
			actual: func(a *Actual) { a.Values["metrics"] = []any{map[string]any{"value": int64(2)}} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, problems := Parse("/tests/a_test.yaml", []byte(test.before))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			var outcomes []Outcome
			for _, c := range f.Cases {
				outcomes = append(outcomes, Outcome{c, actual(test.actual)})
			}
			if got := string(f.Update(outcomes)); got != test.after {
				t.Errorf("got\n%s\nwant\n%s", got, test.after)
			}
		})
	}
}
