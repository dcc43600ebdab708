package testfile

import (
	"strings"
	"testing"
)

// A case is appended to the list, wherever the list is; nothing else changes.
func TestAppend(t *testing.T) {
	for name, test := range map[string]struct{ before, after string }{
		"new": {"", "cases:\n- name: new\n  from: f.json\n  expect: {exit: 0}\n"},
		"empty list": {"hook: a.sh\ncases: [] # none\nenv: {A: b}\n",
			"hook: a.sh\ncases:  # none\n- name: new\n  from: f.json\n  expect: {exit: 0}\nenv: {A: b}\n"},
		"last": {"cases:\n- name: a\n  expect: {runs: 1}\n",
			"cases:\n- name: a\n  expect: {runs: 1}\n- name: new\n  from: f.json\n  expect: {exit: 0}\n"},
		"indented": {"cases:\n  # first\n  - name: a\n    stub:\n      curl: |\n        echo one\n\n        echo two\n",
			"cases:\n  # first\n  - name: a\n    stub:\n      curl: |\n        echo one\n\n        echo two\n  - name: new\n    from: f.json\n    " +
				"expect: {exit: 0}\n"},
		"in between": {"cases:\n- name: a\n  event:\n  - {Added: pod/web}\n  expect: # all\n    runs: 1\n\n# the hook\nhook: a.sh\n",
			"cases:\n- name: a\n  event:\n  - {Added: pod/web}\n  expect: # all\n    runs: 1\n- name: new\n  from: f.json\n  " +
				"expect: {exit: 0}\n\n# the hook\nhook: a.sh\n"},
		"no newline": {"cases:\n- name: a", "cases:\n- name: a\n- name: new\n  from: f.json\n  expect: {exit: 0}\n"},
		"flow":       {"cases: [{name: a}]\n", "its cases are in brackets"},
		"no cases":   {"hook: a.sh\n", "it has no list of cases"},
		"same name":  {"cases:\n- name: new\n", "line 3: the case \"new\" is in line 2 already"},
		"not YAML":   {"cases: [", "did not find"},
	} {
		got, err := Append([]byte(test.before), "new", "f.json")
		switch {
		case err != nil && !strings.Contains(err.Error(), test.after):
			t.Errorf("%s: %v", name, err)
		case err == nil && string(got) != test.after:
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, test.after)
		}
	}
	for _, name := range []string{"it: 'quotes' \"all\" # x", "- dash", "no", "two\nlines", "1.5"} {
		got, err := Append(nil, name, "fixtures/a b.json")
		if err != nil {
			t.Errorf("%q: %v\n%s", name, err, got)
		}
	}
}
