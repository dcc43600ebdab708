package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// maxMethods is how many methods an interface of ours has.
const maxMethods = 5

// wide are interfaces with more methods, with the reason.
var wide = map[string]string{
	"source/stream.Consumer": "the protocol between a stream and its consumers, which bindings and followers of namespaces implement",
}

// TestSizes keeps interfaces small, and the pages of the documentation few.
func TestSizes(t *testing.T) {
	walk(t, ".", ".go", func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, _ := n.(*ast.TypeSpec)
			if spec == nil {
				return true
			}
			i, ok := spec.Type.(*ast.InterfaceType)
			name := filepath.ToSlash(filepath.Dir(path)) + "." + spec.Name.Name
			if ok && i.Methods.NumFields() > maxMethods && wide[name] == "" {
				t.Errorf("%s has %d methods: split it by what its callers need, to at most %d", name, i.Methods.NumFields(), maxMethods)
			}
			return true
		})
	})
	const maxPages = 65
	pages := 0
	if walk(t, "../docs", ".md", func(string) { pages++ }); pages > maxPages {
		t.Errorf("docs has %d pages: add to a page, or merge two, to have at most %d", pages, maxPages)
	}
}

func walk(t *testing.T, dir, suffix string, visit func(path string)) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, suffix) {
			visit(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
