package worker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/test/pages"
)

// The programs of the page are workers, and ordinary hooks without the variable.
func TestWorkersWithoutALibrary(t *testing.T) {
	t.Parallel()
	const page = "docs/how-to/workers-without-a-library.md"
	all, err := pages.All("../../..")
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{"perl": "perl", "javascript": "node", "go": "go"}
	for _, block := range all {
		if block.Page != page {
			continue
		}
		program := programs[block.Kind]
		delete(programs, block.Kind)
		t.Run(program, func(t *testing.T) {
			if _, err := exec.LookPath(program); err != nil {
				t.Skip("there is no " + program + " on this machine")
			}
			b := newBench(t, block.Text, nil)
			if program == "go" {
				source := filepath.Join(t.TempDir(), "main.go")
				if err := os.WriteFile(source, []byte(block.Text), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(b.path); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.Command("go", "build", "-o", b.path, source).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			contexts := filepath.Join(t.TempDir(), "contexts.json")
			if err := os.WriteFile(contexts, []byte(`[{"binding":"onStartup"}]`), 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				got := b.runWith("", func(in *process.Invocation) { in.Vars = append(in.Vars, "BINDING_CONTEXT_PATH="+contexts) })
				if got.err != nil || strings.Join(got.stdout, "|") != "got contexts" || got.result.Served.Worker != 1 || got.result.Served.Run != i+1 {
					t.Error(got)
				}
			}
			if got := b.runWith("", func(in *process.Invocation) { in.Vars = append(in.Vars, "BINDING_CONTEXT_PATH=/no/file") }); got.err == nil ||
				got.result.Served.Worker != 1 {
				t.Error(got)
			}
			cmd := exec.Command(b.path)
			cmd.Env = append(os.Environ(), "BINDING_CONTEXT_PATH="+contexts)
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != "got contexts\n" {
				t.Errorf("%q, error %v", out, err)
			}
		})
	}
	if len(programs) > 0 {
		t.Errorf("the page has no program for %v", programs)
	}
}
