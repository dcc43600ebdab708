package debug

import (
	"os"
	"strings"
	"testing"
)

// TestReference keeps the paths in the documentation equal to those of the code.
func TestReference(t *testing.T) {
	const (
		file   = "../../docs/reference/debug-api.md"
		begins = "<!-- routes: written by go test ./internal/debug -run TestReference -update -->\n"
		ends   = "<!-- end of routes -->\n"
	)
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, hasBegin := strings.Cut(string(page), begins)
	found, after, hasEnd := strings.Cut(rest, ends)
	if !hasBegin || !hasEnd {
		t.Fatalf("%s has no place for the table: it needs the lines\n%s%s", file, begins, ends)
	}
	want := "\n| path | method | answer |\n|---|---|---|\n" + strings.Join(table(), "\n") + "\n\n"
	if found == want {
		return
	}
	if !*update {
		t.Fatalf("the paths in %s are not those of the code: run go test ./internal/debug -run TestReference -update\n%s", file, want)
	}
	if err := os.WriteFile(file, []byte(before+begins+want+ends+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// table is one line for each route.
func table() (lines []string) {
	for _, r := range routes {
		path := strings.Replace(r.path, "*", "NAME", 1)
		if r.path == "/run/*" {
			path = "/run/ID"
		}
		lines = append(lines, "| `"+path+"` | "+r.method+" | "+r.about+" |")
	}
	return lines
}
