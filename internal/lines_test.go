package internal

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// classes has the packages that the program links, by their folders below the module, in four classes. A folder holds all below
// it that no other row holds. The bounds are upper ones: they are lowered when an issue ends, from its table. A class that must
// grow has a row in "Growth" of SCOPE.md.
var classes = []struct {
	name    string
	bound   int
	folders []string
}{
	// What every event may meet.
	{"core", 33200, []string{
		"internal/app", "internal/effect", "internal/event", "internal/filewatch", "internal/hook", "internal/hookset",
		"internal/httpserver", "internal/jq", "internal/kube", "internal/lifecycle", "internal/queue", "internal/run",
		"internal/schema", "internal/source", "internal/spelling", "internal/telemetry", "internal/wire", "sdk",
	}},
	// What a hook or an installation opts into.
	{"opt-in", 16550, []string{
		"internal/effect/applyset", "internal/effect/finalizer", "internal/replica", "internal/run/kubectl", "internal/run/ownwrites",
		"internal/run/pending", "internal/run/recording", "internal/run/traces", "internal/run/worker", "internal/shard",
		"internal/source/finalizer", "internal/source/installed", "internal/source/selectors",
		"internal/source/http", "internal/source/webhook", "internal/telemetry/kubeevent",
	}},
	// What people on duty use: the commands among it.
	{"duty", 12300, []string{"cmd/shell-operator", "internal/console", "internal/debug"}},
	// Tools of authors.
	{"authors", 10150, []string{"docs", "internal/dev", "internal/script"}},
}

// testLines bounds the lines of all files of tests.
const testLines = 62400

// TestLines keeps the program from growing without a decision.
func TestLines(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{.Dir}} {{join .GoFiles ","}}`, module+"cmd/shell-operator")
	list.Env = append(os.Environ(), "GOOS=linux")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]int{}
	for row := range strings.Lines(string(out)) {
		fields := strings.Fields(row)
		name, ours := strings.CutPrefix(fields[0], module)
		if !ours {
			continue
		}
		class := classOf(name)
		if class == "" {
			t.Errorf("no class of lines_test.go has the folder %s", name)
		}
		for file := range strings.SplitSeq(fields[2], ",") {
			sums[class] += lines(t, filepath.Join(fields[1], file))
		}
	}
	for _, c := range classes {
		compare(t, c.name, sums[c.name], c.bound)
	}

	tests := 0
	walk(t, "..", "_test.go", func(path string) {
		if rel, _ := filepath.Rel("..", path); !strings.HasPrefix(rel, "bin"+string(filepath.Separator)) {
			tests += lines(t, path)
		}
	})
	compare(t, "tests", tests, testLines)
}

// classOf returns the class of the longest folder that holds a package, "" if no row has one.
func classOf(pkg string) (class string) {
	longest := 0
	for _, c := range classes {
		for _, folder := range c.folders {
			if len(folder) > longest && (pkg == folder || strings.HasPrefix(pkg, folder+"/")) {
				class, longest = c.name, len(folder)
			}
		}
	}
	return class
}

// lines counts the lines of a file.
func lines(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(data, []byte("\n"))
}

func compare(t *testing.T, name string, now, bound int) {
	t.Helper()
	t.Logf("%s: %d lines of %d", name, now, bound)
	if now > bound {
		t.Errorf("%s: %d lines, the bound is %d: remove something, or raise it with a line in SCOPE.md, \"Growth\"", name, now, bound)
	}
}
