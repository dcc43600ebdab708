package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestErrorsWithHints finds the errors of commands that name a next step: each has a row on the page of errors.
func TestErrorsWithHints(t *testing.T) {
	rows := quotes(pageTexts(t, "..")["../docs/reference/errors.md"])
	texts := hinted(t, "../cmd/shell-operator", "../internal/debug")
	for _, text := range texts {
		m := message{text, verb.Split(text, -1)}
		if !slices.ContainsFunc(rows, func(row string) bool { return says(text, row) || m.isExample(row) }) {
			t.Errorf("docs/reference/errors.md has no row for %q", text)
		}
	}
	if len(texts) < 30 {
		t.Errorf("only %d errors are found", len(texts))
	}
}

// hinted are the formats of errors that have a hint: in hinted{fmt.Errorf("…"), …} and refuse(status, "…").hint(…).
func hinted(t *testing.T, dirs ...string) (all []string) {
	add := func(call ast.Expr, at int) {
		c, ok := call.(*ast.CallExpr)
		if !ok || len(c.Args) <= at {
			return
		}
		// A format of verbs alone is the text of another error.
		if text := literal(c.Args[at]); len(strings.Join(verb.Split(text, -1), "")) > 3 {
			all = append(all, text)
		}
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch e := n.(type) {
				case *ast.CompositeLit:
					if name, ok := e.Type.(*ast.Ident); ok && name.Name == "hinted" && len(e.Elts) > 0 {
						add(e.Elts[0], 0)
					}
				case *ast.CallExpr:
					if hint, ok := e.Fun.(*ast.SelectorExpr); ok && hint.Sel.Name == "hint" {
						add(hint.X, 1)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
