package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// errorRow is a row of reference/errors.md: the message, its cause, its fix.
var errorRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\|$")

// TestErrorMessages finds each message of reference/errors.md in the source of the program. … matches any text.
func TestErrorMessages(t *testing.T) {
	page, err := os.ReadFile("reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := errorRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 60 {
		t.Errorf("the page has %d messages, fewer than 60", len(rows))
	}
	messages := literals(t)
	seen := map[string]bool{}
	for _, row := range rows {
		if seen[row[1]] {
			t.Errorf("%q has two rows", row[1])
		}
		seen[row[1]] = true
		found := false
		for _, m := range messages {
			found = found || says(m, row[1])
		}
		if !found {
			t.Errorf("no message of the program is %q: change or remove the row", row[1])
		}
	}
}

// says reports whether a message has the fixed parts of a row, in order.
func says(message, row string) bool {
	for part := range strings.SplitSeq(row, "…") {
		part = strings.Trim(part, ` "[]`)
		_, rest, ok := strings.Cut(message, part)
		if !ok {
			return false
		}
		message = rest
	}
	return true
}

// literals are the string literals of the program; parts of a sum are one.
func literals(t *testing.T) (all []string) {
	for _, root := range []string{"../cmd", "../internal"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				text, sum := "", false
				switch e := n.(type) {
				case *ast.BasicLit:
					text = literal(e)
				case *ast.BinaryExpr:
					text, sum = literal(e), true
				}
				if text != "" {
					all = append(all, text)
				}
				return !sum || text == ""
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value)
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return literal(e.X) + literal(e.Y)
		}
	}
	return ""
}
