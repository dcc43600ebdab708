package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/docs"
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
		if title != "message" && title != "msg" && title != "error" && title != "reason" {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(first, -1) {
			all = append(all, m[1])
		}
	}
	return all
}

var verb = regexp.MustCompile(`%[+#]?[a-z]`)

// message is a text of the program, and what is between its verbs.
type message struct {
	text  string
	parts []string
}

// isExample reports whether a quote has a message in it, with values in the place of its verbs.
func (m message) isExample(quote string) bool {
	if len(strings.Join(m.parts, "")) < 12 {
		return false
	}
	for _, part := range m.parts {
		_, rest, ok := strings.Cut(quote, part)
		if !ok {
			return false
		}
		quote = rest
	}
	return true
}

// TestQuotedMessages finds the messages that tables of pages quote in the source of the program. … matches any text.
func TestQuotedMessages(t *testing.T) {
	var messages []message
	for _, text := range literals(t) {
		messages = append(messages, message{text, verb.Split(text, -1)})
	}
	for path, least := range map[string]int{"../docs/reference/errors.md": 60, "../docs/reference/logs.md": 100} {
		if n := len(quotes(pageTexts(t, "..")[path])); n < least {
			t.Errorf("%s: only %d messages are quoted", path, n)
		}
	}
	for path, text := range pageTexts(t, "..") {
		seen := map[string]bool{}
		for _, quote := range quotes(text) {
			if !slices.ContainsFunc(messages, func(m message) bool { return docs.Contains(m.text, quote) || m.isExample(quote) }) {
				t.Errorf("%s: no message of the program is %q: change or remove the row", path, quote)
			}
			if seen[quote] && strings.HasSuffix(path, "errors.md") {
				t.Errorf("%s: %q has two rows", path, quote)
			}
			seen[quote] = true
		}
	}
}

// literals are the string literals of the program; parts of a sum are one.
func literals(t *testing.T) (all []string) {
	for _, root := range []string{"../cmd", "../internal", "../kubectl"} {
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
