package wire

import "testing"

func TestLocate(t *testing.T) {
	const config = `configVersion: v1
kubernetes:
- name: a
  kind: Pod
- kind: Pod
  jqFilter: .a | }
  nameSelector: {matchNames: [x]}
- kind: Pod
- labelSelector: {matchLabels: {example: a, example.com/app: b}}
`
	for _, test := range []struct {
		path, problem string
		line, column  int
	}{
		{"kubernetes[1].jqFilter", "must be of type string", 6, 3},
		{"kubernetes[1].nameSelector.matchNames", "", 7, 18},
		{"kubernetes[1].nameSelector.matchNames[0]", "", 7, 31},
		{"kubernetes[0].queue", "", 3, 3},
		{"configVersion", "", 1, 1},
		{"schedule", "", 1, 1},
		{"kubernetes[3].labelSelector.matchLabels.example.com/app", "", 9, 45},
		{"kubernetes[7]", "", 2, 1},
	} {
		if line, column := Locate([]byte(config), test.path, test.problem); line != test.line || column != test.column {
			t.Errorf("%s %s: %d:%d, not %d:%d", test.path, test.problem, line, column, test.line, test.column)
		}
	}
	if line, _ := Locate([]byte("a: [\n"), "a", ""); line != 0 {
		t.Errorf("line %d of what is no YAML", line)
	}
}
