package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/docs"
)

// TestErrorsWithHints finds the errors of commands that name a next step: each has a row on the page of errors.
func TestErrorsWithHints(t *testing.T) {
	rows := quotes(pageTexts(t, "..")["../docs/reference/errors.md"])
	texts := hinted(t, "../cmd/shell-operator", "../internal/debug")
	for _, text := range texts {
		m := message{text, verb.Split(text, -1)}
		if !slices.ContainsFunc(rows, func(row string) bool { return docs.Contains(text, row) || m.isExample(row) }) {
			t.Errorf("docs/reference/errors.md has no row for %q", text)
		}
	}
	if len(texts) < 30 {
		t.Errorf("only %d errors are found", len(texts))
	}
}

// TestCodes has a code for each row, of its own, and finds rows by messages: the one that fits most closely.
func TestCodes(t *testing.T) {
	page := pageTexts(t, "..")["../docs/reference/errors.md"]
	seen := map[string]bool{}
	for _, e := range docs.Errors() {
		if seen[e.Code] || !regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(e.Code) {
			t.Errorf("%q: a code is of one row, and lower-case words with hyphens", e.Code)
		}
		seen[e.Code] = true
		for _, m := range e.Messages {
			if example := strings.ReplaceAll(m, "…", "x"); docs.CodeOf(example) == "" {
				t.Errorf("%q has no code", example)
			}
		}
	}
	if rows := strings.Count(page, "\n| ") - strings.Count(page, "\n| message |"); len(seen) != rows {
		t.Errorf("%d rows have a code, of %d", len(seen), rows)
	}
	for message, want := range map[string]string{
		`after is different`: "expectation-differs", `error is different`: "error-differs", `nothing of this`: "",
		`kubernetes[0].queue: is set for the queue main, which cannot have one`: "set-queue-main",
	} {
		if got := docs.CodeOf(message); got != want {
			t.Errorf("%q: the code is %q, not %q", message, got, want)
		}
	}
}

// TestCodesOfFindings has a code for each finding that the tests of configurations and of lint expect.
func TestCodesOfFindings(t *testing.T) {
	found := regexp.MustCompile(`(?m)^(?:invalid|[^ ]+: error|(?:[^ ]+: )?warning): (.*)$`)
	seen := 0
	for _, pattern := range []string{"../internal/wire/testdata/config/*.txtar", "../cmd/shell-operator/testdata/script/*.txtar"} {
		files, _ := filepath.Glob(pattern)
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range found.FindAllSubmatch(text, -1) {
				seen++
				if message := string(m[1]); docs.CodeOf(message) == "" && !ofParser.MatchString(message) {
					t.Errorf("%s: docs/reference/errors.md has no row for %q, so it has no code", path, message)
				}
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d findings are there", seen)
	}
}

// ofParser are messages of the parser of shells, which have the code of syntax errors.
var ofParser = regexp.MustCompile("^(`.*` (must|can only)|arrays are not in this shell)")

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
