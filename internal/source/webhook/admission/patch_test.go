package admission

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestPatches runs testdata/patches.txt: a line is a review and a patch. Below the dashes is the error, which has no
// value of the patch.
func TestPatches(t *testing.T) {
	golden.Scripts(t, "testdata/patches.txt", func(t *testing.T, script string) string {
		var outcome string
		return golden.Blocks(script, func(words []string) {
			if err := checkApplies([]byte(words[0]), []byte(strings.Join(words[1:], " "))); err != nil {
				outcome = err.Error() + "\n"
			}
			if strings.Contains(outcome, "secret") {
				t.Errorf("%q: the error has a value: %s", words, outcome)
			}
		}, func() string {
			defer func() { outcome = "" }()
			return outcome
		})
	})
}

func TestWarnings(t *testing.T) {
	if got := presentable([]string{"a\xffb", " \n"}); len(got) != 1 || got[0] != "a\uFFFDb" {
		t.Errorf("got %q", got)
	}
}
