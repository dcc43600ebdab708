package pages

import "testing"

func TestBlocks(t *testing.T) {
	got := Blocks("text\n<!-- fails -->\n```sh\nfalse\n```\n- item:\n\n  ```json context\n  {\n    \"a\": 1}\n  ```\n")
	want := []Block{{Line: 3, Kind: "sh", Text: "false\n", Mark: "fails"}, {Line: 8, Kind: "json context", Text: "{\n  \"a\": 1}\n"}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		shown, got     string
		same, sameKeys string
	}{
		{`{"a": 1}`, `{"a": 1}`, "", ""},
		{`{"a": 1}`, `{"a": 2}`, ".a: 1 is shown, 2 is there", ""},
		{`{"a": 1}`, `{"a": "1"}`, ".a: 1 is shown, 1 is there", ".a: 1 is shown, 1 is there"},
		{`{"a": 1}`, `{"a": 1, "b": 2}`, ".b is there, and not shown", ".b is there, and not shown"},
		{`{"a": 1, "b": 2}`, `{"a": 1}`, ".b is shown, and not there", ".b is shown, and not there"},
		{`{"object": {"kind": "Pod"}}`, `{"object": {"kind": "Pod", "spec": {}}}`, "", ""},
		{`{"a": "x…z"}`, `{"a": "xyz"}`, "", ""},
		{`{"a": "…"}`, `{"a": 7}`, "", ""},
		{`[1]`, `[]`, ": 1 items are shown, 0 are there", ": nothing is there"},
		{`[{"a": 1}]`, `[{"b": 1}, {"a": 2}]`, ": 1 items are shown, 2 are there", ""},
		{`{`, `{}`, "what is shown is no JSON: unexpected end of JSON input", "what is shown is no JSON: unexpected end of JSON input"},
	} {
		for i, err := range []error{Same(c.shown, c.got), SameKeys(c.shown, c.got)} {
			text, want := "", []string{c.same, c.sameKeys}[i]
			if err != nil {
				text = err.Error()
			}
			if text != want {
				t.Errorf("%s and %s, function %d: %q, want %q", c.shown, c.got, i, text, want)
			}
		}
	}
}
