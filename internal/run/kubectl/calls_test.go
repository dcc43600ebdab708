package kubectl

import (
	"reflect"
	"slices"
	"testing"
)

// TestCalls: equal lines are counted, and whatever else a hook writes to the file is not.
func TestCalls(t *testing.T) {
	for _, test := range []struct {
		name, content string
		want          []Calls
	}{
		{"none", "", nil},
		{"several", "get trimmed\napply trimmed\nget complete flag\nother complete command\nget trimmed\n", []Calls{
			{"apply", Trimmed, "", 1}, {"get", Trimmed, "", 2}, {"get", Complete, "flag", 1}, {Other, Complete, "command", 1},
		}},
		{"invalid", "get\nget trimmed flag\nget complete\nget complete -n\nget served\nlogs trimmed\n get trimmed\n\n\x00\nget trimmed", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ParseCalls([]byte(test.content)); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	for content, want := range map[string]bool{"": false, "get trimmed\n": false, "get trimmed\nsecrets\n": true, "secrets\n": true,
		"get trimmed\nget trimmed\nget trimmed": true} {
		if got := OnSecrets([]byte(content), 30); got != want {
			t.Errorf("%q: on Secrets is %t", content, got)
		}
	}
	plain, trimmed := []string{"A=1"}, []string{Variable + "=1,2,3,4", "A=1"}
	if got := Recorded(plain, "/file"); got != nil {
		t.Errorf("without the trimmed kubectl: %q", got)
	}
	if got := Recorded(trimmed, "/file"); !slices.Equal(got, []string{callsVariable + "=/file"}) {
		t.Errorf("with the trimmed kubectl: %q", got)
	}
}
