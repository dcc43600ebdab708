package tutorial

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/pages"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// parsed are blocks that docs/docs_test.go reads with the operator's own parsers. Configurations are enabled, too: see
// configurations.
func parsed(b pages.Block) bool {
	return slices.Contains([]string{"yaml patch", "json patch", "json metrics", "json admission", "json conversion", "json http"}, b.Kind) ||
		b.Kind == "yaml" && strings.HasPrefix(b.Text, "configVersion: v1\n")
}

// checker says who sees that a block is true. Nobody is an empty text.
func checker(b pages.Block, scripts string) string {
	name := b.Page
	if below, ok := strings.CutPrefix(name, "docs/"); ok {
		name = below
	} else {
		name = "../" + name
	}
	switch {
	case slices.ContainsFunc(cannot, func(c leftOut) bool { return c.page == name && strings.HasPrefix(b.Text, c.begins) }):
		return "nobody can"
	case b.Kind == "json context":
		// The mark says what the script calls it.
		if called, ok := strings.CutPrefix(b.Mark, "context: "); ok && strings.Contains(scripts, "\nshown "+b.Page+" "+called+"\n") {
			return "test/conformance compares"
		}
		return ""
	case parsed(b):
		return "docs and TestPages parse"
	case b.Kind == "drawing":
		if strings.ContainsAny(b.Text, "─→►") {
			return "a drawing"
		}
		return ""
	case name == "tutorial/first-hook.md":
		if b.Kind == "sh" || b.Kind == "" {
			return "TestFirstHook types"
		}
		return ""
	case slices.ContainsFunc(allPages(), func(p page) bool { return p.name == name }):
		return "TestPages types" // and fails for what it does not know
	}
	return ""
}

// TestEverySnippet sees that every fenced block of every page is checked by a test. With -v it prints how many by which.
func TestEverySnippet(t *testing.T) {
	all, err := pages.All(testenv.Root())
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := contextScripts()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, b := range all {
		who := checker(b, scripts)
		counts[who]++
		if who == "" {
			t.Errorf("%s:%d: no test checks this block, see the package comment:\n```%s\n%s```", b.Page, b.Line, b.Kind, b.Text)
		}
	}
	for who, n := range counts {
		t.Logf("%d blocks: %s", n, who)
	}
}

// contextScripts is the text of the scripts that compare contexts.
func contextScripts() (string, error) {
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "test", "conformance", "testdata", "pages-contexts.txtar"))
	return "\n" + string(text), err
}

// TestLeftOut sees that what cannot be typed is on pages that are followed.
func TestLeftOut(t *testing.T) {
	all, err := pages.All(testenv.Root())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cannot {
		if !slices.ContainsFunc(allPages(), func(p page) bool { return p.name == c.page }) {
			t.Errorf("%s is not followed, so nothing of it need be left out", c.page)
		}
	}
	for _, c := range cannotLines {
		if !slices.ContainsFunc(all, func(b pages.Block) bool { return strings.Contains("\n"+b.Text, "\n"+c.begins) }) {
			t.Errorf("no page has a line that begins with %q", c.begins)
		}
	}
}
