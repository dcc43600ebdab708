package tutorial

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/pages"
)

// parsed are blocks that docs/docs_test.go reads with the operator's own parsers. Configurations are enabled, too: see
// configurations.
func parsed(b pages.Block) bool {
	return slices.Contains([]string{"yaml patch", "json patch", "json metrics", "json admission", "json conversion", "json http",
		"yaml result"}, b.Kind) ||
		b.Kind == "yaml" && strings.HasPrefix(b.Text, "configVersion: v1\n")
}

// checker names the test of a block; empty if there is none.
func checker(b pages.Block, scripts string) string {
	called, isContext := strings.CutPrefix(b.Mark, "context: ")
	switch {
	case strings.HasPrefix(b.Mark, "not run: "):
		return "none, with a reason"
	case b.Kind == "json context" && isContext && strings.Contains(scripts, "\nshown "+b.Page+" "+called+"\n"):
		return "test/conformance compares" // under the name that the mark has
	case b.Kind == "json context":
		return ""
	case parsed(b):
		return "docs and TestPages parse"
	case b.Kind == "drawing" && strings.ContainsAny(b.Text, "─→►"):
		return "a drawing"
	case b.Page == tutorialPage && (b.Kind == "sh" || b.Kind == ""):
		return "TestFirstHook runs"
	case b.Page == workersPage:
		return "internal/run/worker runs"
	case followed(b.Page) && checkOf(b) != nil:
		return "TestPages and TestExamples run"
	}
	return ""
}

// TestEverySnippet: every fenced block of every page is checked by a test. With -v it prints how many by which.
func TestEverySnippet(t *testing.T) {
	all, err := pages.All(test.Root())
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := contextScripts()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, b := range all {
		which := checker(b, scripts)
		counts[which]++
		if which == "" {
			t.Errorf("%s:%d: no test checks this block, see the package comment:\n```%s\n%s```", b.Page, b.Line, b.Kind, b.Text)
		}
	}
	for which, n := range counts {
		t.Logf("%d blocks: %s", n, which)
	}
}

// contextScripts is the text of the scripts that compare contexts.
func contextScripts() (string, error) {
	text, err := os.ReadFile(filepath.Join(test.Root(), "test", "conformance", "testdata", "pages-contexts.txtar"))
	return "\n" + string(text), err
}
