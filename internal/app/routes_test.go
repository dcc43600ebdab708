package app

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/pages"
)

// TestReference keeps the paths in the documentation equal to the routes in the code.
func TestReference(t *testing.T) {
	want := "\n| path | method | answer |\n|---|---|---|\n" + strings.Join(table(), "\n") + "\n\n"
	pages.Part{Page: "../../docs/reference/debug-api.md", Name: "routes", Package: "./internal/app"}.Check(t, want)
}

// table is one line for each route.
func table() (lines []string) {
	for _, r := range Routes() {
		path := strings.Replace(r.Path, "*", "NAME", 1)
		path = strings.Replace(path, "/run/NAME", "/run/ID", 1)
		lines = append(lines, "| `"+path+"` | "+r.Method+" | "+r.About+" |")
	}
	return lines
}
