package wire

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
)

func TestReadContexts(t *testing.T) {
	file, heads, err := ReadContexts([]byte(` {"binding": "a", "type": "Conversion", "fromVersion": "v1", "toVersion": "v2", "review": {}}` +
		"\n"))
	if err != nil || len(heads) != 1 || heads[0].Type != event.Conversion || heads[0].Step.From != "v1" || heads[0].Step.To != "v2" {
		t.Errorf("%+v, %v", heads, err)
	}
	if want := `[{"binding": "a", "type": "Conversion", "fromVersion": "v1", "toVersion": "v2", "review": {}}]` + "\n"; string(file) != want {
		t.Errorf("the hook would get %s", file)
	}
	_, heads, err = ReadContexts([]byte(`[{"binding": "a", "type": "Group", "groupName": "g"}, {"binding": "onStartup"}]`))
	if err != nil || len(heads) != 2 || heads[0].GroupName != "g" || heads[1].IsReview() {
		t.Errorf("%+v, %v", heads, err)
	}
	for text, want := range map[string]string{
		"":                  "not JSON",
		"[{]":               "not JSON: .* in line 1",
		"[]":                "no binding context",
		"[1]":               "not an array of binding contexts: a part of it is of type number",
		`[{"binding": ""}]`: `context 1 has no "binding"`,
		`[{"binding": "a", "type": "Validating"}]`:                                         "has no review",
		`[{"binding": "a"}, {"binding": "b", "type": "Validating", "review": {}}]`:         "not the only one",
		`[{"binding": "a", "type": "HTTP"}]`:                                               "has no request",
		`[{"binding": "a", "type": "HTTP", "request": {}}, {"binding": "b"}]`:              "not the only one",
		`[{"binding": "a", "type": "Mutating", "review": {"request": "of another kind"}}]`: "has no review",
	} {
		_, _, err := ReadContexts([]byte(text))
		if err == nil || !strings.Contains(err.Error(), strings.Split(want, ": .*")[0]) {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
}
