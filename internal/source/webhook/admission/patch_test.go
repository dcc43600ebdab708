package admission

import (
	"strings"
	"testing"
)

func TestPatches(t *testing.T) {
	for _, row := range []struct{ patch, want string }{
		{`[]`, ""},
		{` [ {"op":"add","path":"/a","value":null} ] `, ""},
		{`[{"op":"add","path":"","value":{}},{"op":"remove","path":"/a/0"},{"op":"replace","path":"/a~1b","value":1},{"op":"move","from":"/a",` +
			`"path":"/b"},{"op":"copy","from":"/a","path":"/b"},{"op":"test","path":"/a","value":1}]`, ""},
		{`{}`, "it is not a JSON patch"},
		{`garbage`, "it is not a JSON patch"},
		{`[1]`, "operation 0: it is not an object"},
		{`[{"path":"/a"}]`, `operation 0: it has no "op"`},
		{`[{"op":1,"path":"/a"}]`, `operation 0: it has no "op"`},
		{`[{"op":"","path":"/a"}]`, `operation 0: unknown op ""`},
		{`[{"op":"add remove","path":"/a"}]`, `operation 0: unknown op "add remove"`},
		{`[{"op":"test","path":"/a"},{"op":"add","path":"/a"}]`, `operation 1: op "add": failed to decode 'value'`},
		{`[{"op":"add","value":"secret"}]`, `operation 0: op "add": failed to decode 'path'`},
		{`[{"op":"move","path":"/a"}]`, `operation 0: op "move": failed to decode 'from'`},
		{`[{"op":"remove","path":["secret"]}]`, `operation 0: op "remove": failed to decode 'path'`},
		{`[{"op":"remove","path":"a"}]`, `operation 0: op "remove": path "a" does not begin with a slash`},
		{`[{"op":"move","path":"/a","from":"b"}]`, `operation 0: op "move": from "b" does not begin with a slash`},
	} {
		got := ""
		if err := checkPatch([]byte(row.patch)); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, row.want) || (got == "") != (row.want == "") {
			t.Errorf("%s: got %q, want %q", row.patch, got, row.want)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("%s: the error has a value: %s", row.patch, got)
		}
	}
}

// TestPatchAppliesAsInAPIServer covers patches that later versions of the library reject, and those that do not apply.
func TestPatchAppliesAsInAPIServer(t *testing.T) {
	const review = `{"request":{"object":{"metadata":{"labels":{"a":"b"}},"spec":{"list":[1]}}}}`
	for _, row := range []struct{ review, patch, want string }{
		{review, `[{"op":"add","path":"/metadata/labels/c","value":"d"}]`, ""},
		{review, `[{"op":"copy","from":"/metadata/none","path":"/metadata/labels/c"}]`, ""},
		{review, `[{"op":"add","path":"/spec/list/-1","value":2}]`, ""},
		{review, `[{"op":"add","path":"/metadata/annotations/c","value":"secret"}]`,
			"it does not apply to the object: add operation does not apply: doc is missing path"},
		{review, `[{"op":"remove","path":"/spec/none"}]`, "it does not apply to the object: error in remove for path: '/spec/none'"},
		{review, `[{"op":"test","path":"/metadata/labels/a","value":"secret"}]`,
			"it does not apply to the object: testing value /metadata/labels/a failed"},
		{review, `[{"op":"replace","path":"/spec/list/7","value":"secret"}]`,
			"it does not apply to the object: replace operation does not apply: doc is missing key"},
		{`{"request":{}}`, `[{"op":"remove","path":"/spec/none"}]`, ""},
	} {
		got := ""
		if err := checkApplies([]byte(row.review), []byte(row.patch)); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, row.want) || (got == "") != (row.want == "") {
			t.Errorf("%s: got %q, want %q", row.patch, got, row.want)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("%s: the error has a value: %s", row.patch, got)
		}
	}
}

func TestWarnings(t *testing.T) {
	long := strings.Repeat("ж", 300)
	var many []string
	for range 20 {
		many = append(many, long)
	}
	if got := presentable([]string{long}); len(got) != 1 || got[0] != long {
		t.Errorf("one long warning is cut: %q", got)
	}
	got := presentable(many)
	if len(got) != 16 || got[15] != strings.Repeat("ж", 256) {
		t.Errorf("got %d, the last one %q", len(got), got[len(got)-1])
	}
	if got := presentable([]string{"a\xffb", " \n"}); len(got) != 1 || got[0] != "a\uFFFDb" {
		t.Errorf("got %q", got)
	}
}
