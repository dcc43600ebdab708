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

// goals are pages that promise a short path, with the text after its last step. TestPages follows them.
var goals = map[string]string{
	"docs/how-to/reproduce-a-failure.md": "<!-- the end of the path -->",
	"docs/tutorial/tested-hook.md":       "<!-- the end of the path -->",
}

// TestGoals counts what a reader types: at most six commands, and ten edited lines.
func TestGoals(t *testing.T) {
	for page, end := range goals {
		text, err := os.ReadFile(filepath.Join(test.Root(), page))
		if err != nil {
			t.Fatal(err)
		}
		path, _, found := strings.Cut(string(text), end)
		if !found {
			t.Fatalf("%s has no %s", page, end)
		}
		var typed, edited []string
		files := map[string][]string{}
		for _, b := range pages.Blocks(path) {
			lines := strings.Split(strings.TrimSpace(b.Text), "\n")
			file, isFile := strings.CutPrefix(b.Mark, "file: ")
			switch {
			case isFile:
				for _, line := range lines {
					if !b.Hidden && !slices.Contains(files[file], line) {
						edited = append(edited, line)
					}
				}
				files[file] = lines
			case b.Kind == "sh" && !b.Hidden:
				typed = append(typed, lines...)
			}
		}
		if len(typed) == 0 || len(typed) > 6 || len(edited) == 0 || len(edited) > 10 {
			t.Errorf("%s: %d commands are typed, at most 6 should be, and %d lines edited, at most 10 should be:\n%s\n%s", page, len(typed),
				len(edited),
				strings.Join(typed, "\n"), strings.Join(edited, "\n"))
		}
	}
}
