package internal

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The sums of lines: of the packages that the program links, and of all files of tests. A change may lower them. One that
// raises a number adds a line to "Growth" in SCOPE.md: what grew, for whom, by how much.
const (
	productLines = 69144
	testLines    = 64970
)

// slack is how far a number may be above what it bounds, before it has to be lowered.
const slack = 40

// packageLines are the lines of each package that the program links, without tests.
var packageLines = map[string]int{
	"cmd/shell-operator":                 3627,
	"docs":                               136,
	"internal/app":                       2080,
	"internal/console":                   1545,
	"internal/debug":                     6143,
	"internal/debug/history":             754,
	"internal/dev":                       2254,
	"internal/dev/lint":                  533,
	"internal/dev/memory":                2367,
	"internal/dev/rbac":                  585,
	"internal/dev/simulate":              2026,
	"internal/dev/testfile":              1346,
	"internal/effect":                    415,
	"internal/effect/apply":              617,
	"internal/effect/applyset":           3449,
	"internal/effect/finalizer":          759,
	"internal/effect/metric":             536,
	"internal/effect/patch":              1081,
	"internal/event":                     744,
	"internal/filewatch":                 104,
	"internal/hook":                      633,
	"internal/hookset":                   1526,
	"internal/httpserver":                965,
	"internal/jq":                        1561,
	"internal/kube":                      1308,
	"internal/lifecycle":                 1837,
	"internal/queue":                     1861,
	"internal/replica":                   1060,
	"internal/replica/ownership":         633,
	"internal/run":                       2798,
	"internal/run/kubectl":               209,
	"internal/run/pending":               852,
	"internal/run/process":               1617,
	"internal/run/recording":             716,
	"internal/run/worker":                759,
	"internal/run/workspace":             986,
	"internal/schema":                    280,
	"internal/script":                    388,
	"internal/shard":                     145,
	"internal/source/http":               768,
	"internal/source/schedule":           350,
	"internal/source/watch":              5751,
	"internal/source/webhook":            1094,
	"internal/source/webhook/admission":  1525,
	"internal/source/webhook/cert":       780,
	"internal/source/webhook/conversion": 957,
	"internal/source/webhook/keep":       247,
	"internal/spelling":                  40,
	"internal/telemetry":                 1334,
	"internal/telemetry/kubeevent":       487,
	"internal/telemetry/logonce":         72,
	"internal/wire":                      4437,
	"sdk":                                67,
}

// TestLines keeps the program from growing without a decision.
func TestLines(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{.Dir}} {{join .GoFiles ","}}`, module+"cmd/shell-operator")
	list.Env = append(os.Environ(), "GOOS=linux")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	seen := map[string]bool{}
	for row := range strings.Lines(string(out)) {
		fields := strings.Fields(row)
		name, ours := strings.CutPrefix(fields[0], module)
		if !ours {
			continue
		}
		n := 0
		for file := range strings.SplitSeq(fields[2], ",") {
			n += lines(t, filepath.Join(fields[1], file))
		}
		seen[name] = true
		sum += n
		compare(t, name, n, packageLines[name])
	}
	for name := range packageLines {
		if !seen[name] {
			t.Errorf("the program does not link %s: remove its row", name)
		}
	}
	compare(t, "all packages", sum, productLines)

	tests := 0
	walk(t, "..", "_test.go", func(path string) {
		if rel, _ := filepath.Rel("..", path); !strings.HasPrefix(rel, "bin"+string(filepath.Separator)) {
			tests += lines(t, path)
		}
	})
	compare(t, "all tests", tests, testLines)
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
	switch {
	case now > bound:
		t.Errorf("%s: %d lines, the bound is %d: remove something, or raise it with a line in SCOPE.md, \"Growth\"", name, now, bound)
	case now < bound-slack:
		t.Errorf("%s: %d lines, the bound is %d: lower it to %d", name, now, bound, now)
	}
}
