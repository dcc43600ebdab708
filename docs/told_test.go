//go:build told

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/pages"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// quotes returns what the first column of a page's tables quotes, of tables with one of these titles above that column.
func quotes(text string) (all []string) {
	var title string
	inside := false
	for line := range strings.Lines(text) {
		row, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !ok {
			inside = false
			continue
		}
		first, _, _ := strings.Cut(strings.TrimSpace(row), " | ")
		if !inside {
			inside, title = true, strings.Trim(first, "`")
			continue
		}
		if title != "msg" && title != "error" && title != "reason" {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(first, -1) {
			all = append(all, m[1])
		}
	}
	return all
}

// TestTold sees that messages which pages quote have been told by operators of other tests, in the files that testenv.Told has
// written. scripts/test.sh runs it when all other tests have ended.
func TestTold(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(os.Getenv("TESTTOLD"), "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in $TESTTOLD, error %v", err)
	}
	var told []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, strings.Split(string(text), "\n")...)
	}
	count := 0
	for path, text := range pageTexts(t, "..") {
		for _, quote := range quotes(text) {
			count++
			if !tells(told, quote) && !insideOnly(t, quote) && !slices.ContainsFunc(untold, func(u untoldMessage) bool { return strings.HasPrefix(quote, u.begins) }) {
				t.Errorf("%s: no operator of any test has told this: %s", path, quote)
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d messages are quoted", count)
	}
	t.Logf("%d messages, %d lines of operators", count, len(told))
}

func tells(told []string, quote string) bool {
	for _, line := range told {
		if pages.Like(line, quote) {
			return true
		}
	}
	return false
}

// insideOnly tells whether a message comes only in tests that have no operator: those of the package that makes it. The test
// that expects it is read, since what it got is nowhere kept.
func insideOnly(t *testing.T, quote string) bool {
	for _, i := range inside {
		if !strings.HasPrefix(quote, i.begins) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", i.test))
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(text), i.expects) {
			t.Errorf("%s does not expect %q", i.test, i.expects)
		}
		return true
	}
	return false
}

var inside = []struct{ begins, test, expects string }{
	{"Configuration is accepted, but look at this", "internal/hookset/load_test.go", "WARN Configuration is accepted, but look at this: "},
	{"No hooks found: ", "internal/hookset/load_test.go", "WARN No hooks found: put executable files into the hooks directory and start again: "},
	{"the API server does not serve ", "internal/source/watch/trouble_test.go", "`the API server does not serve ` + "},
	{"the API server does not accept the operator's credentials for ", "internal/source/watch/trouble_test.go", "`the API server does not accept the operator's credentials for ` + "},
}

// untoldMessage is one that no test provokes.
type untoldMessage struct{ begins, why string }

var untold = []untoldMessage{
	{"Cannot give the Lease back", "the API server would have to fail at the very moment of the end"},
	{"Cannot point the CRD", "the API server would have to fail between a list and an update"},
	{"Cannot read the CRD", "the same"},
	{"Cannot watch the CRD", "the same"},
	{"Cannot remove the files of the run", "the operator made the directory and may remove it"},
	{"Cannot remove a copy of the hooks directory", "the same"},
	{"Changes of hooks are noticed within a minute only", "the system would have to run out of watches of files"},
	{"HTTP certificate", "the reload is tested by what clients see"},
	{"Some metrics cannot be shown", "hooks cannot bring it about: an invariant"},
	{"The Service of the webhooks has to wait", "the API server would have to fail at the start only"},
	{"Trouble with traces", "it is what the library says about itself"},
	{"cannot read whether it is gone", "it takes a user who may delete and not read"},
	{"panic recovered", "it would be a bug"},
}
