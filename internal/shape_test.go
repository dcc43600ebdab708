package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shaped are the packages that every event meets, with the files in them that belong to one capability.
var shaped = map[string][]string{
	"source/stream": nil,
	"source/watch":  {"division.go", "optional.go", "own.go", "setback.go", "written.go"},
	"run":           {"conditions.go", "worker.go"},
	"queue":         nil,
	"lifecycle":     {"pause.go", "pending.go"},
}

// capabilities are words that name one.
var capabilities = regexp.MustCompile(`(?i)shard|division|leader|standby|lease|finaliz|\bgates?\b|ownchanges|ignoreown|ownwrites|optional` +
	`|parked|requeue|pending\.|includeprevious|setcondition|keyed|lanekey|worker|recording|traces?\b|paus(e|ing)|dryrun|kubectl`)

// TestShape holds the width of what every event meets. The bounds are upper ones, lowered when it falls.
func TestShape(t *testing.T) {
	named, largest, methods, fields := 0, 0, map[string]int{}, map[string]int{}
	var functions []int
	for folder, own := range shaped {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", folder, err)
		}
		sum := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				sum++
				if capabilities.MatchString(line) && !slices.Contains(own, filepath.Base(file)) {
					named++
				}
			}
			positions := token.NewFileSet()
			parsed, err := parser.ParseFile(positions, file, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.FuncDecl:
					functions = append(functions, positions.Position(node.End()).Line-positions.Position(node.Pos()).Line+1)
					if node.Recv != nil {
						methods[folder+"."+receiver(node.Recv.List[0].Type)]++
					}
				case *ast.TypeSpec:
					if structure, ok := node.Type.(*ast.StructType); ok {
						for _, field := range structure.Fields.List {
							fields[folder+"."+node.Name.Name] += max(1, len(field.Names))
						}
					}
				}
				return true
			})
		}
		largest = max(largest, sum)
	}
	slices.Sort(functions)
	for _, figure := range []struct {
		name       string
		now, bound int
	}{
		{"lines that name a capability", named, 313},
		{"lines of the largest package", largest, 2994},
		{"methods of " + widest(methods), methods[widest(methods)], 69},
		{"fields of " + widest(fields), fields[widest(fields)], 31},
		{"lines of a function, 90th percentile", functions[len(functions)*9/10], 26},
	} {
		t.Logf("%s: %d of %d", figure.name, figure.now, figure.bound)
		if figure.now > figure.bound {
			t.Errorf("%s: %d, the bound is %d: a capability belongs beside these packages", figure.name, figure.now, figure.bound)
		}
	}
}

// vague begins a comment that explains no name, or has words that the project leaves out.
var vague = regexp.MustCompile(`(?m)^\s*// ?([\w.]+ (is|are|has|have) (what|who|how|which|no)\b|.*\bany ?more\b)`)

// TestComments bounds the vague comments of the program: upper bounds, lowered when one is rewritten.
func TestComments(t *testing.T) {
	count := map[bool]int{} // of the core, and of the rest
	walk(t, "..", ".go", func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel("../internal", filepath.Dir(path))
		core := slices.ContainsFunc([]string{"effect", "event", "hook", "jq", "kube", "queue", "run", "source/stream", "source/watch", "wire"},
			func(folder string) bool { return rel == folder || strings.HasPrefix(rel, folder+"/") })
		if !strings.HasSuffix(path, "_test.go") {
			count[core] += len(vague.FindAll(text, -1))
		}
	})
	for core, bound := range map[bool]int{true: 50, false: 200} {
		if t.Logf("core %t: %d vague comments of %d", core, count[core], bound); count[core] > bound {
			t.Errorf("core %t: %d comments are vague, the bound is %d: begin with a type or a term", core, count[core], bound)
		}
	}
}

// widest returns the name with the greatest number.
func widest(of map[string]int) string {
	return slices.MaxFunc(slices.Collect(maps.Keys(of)), func(a, b string) int { return of[a] - of[b] })
}

// receiver returns the name of the type of a receiver.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}
