// Package python has no Go code: its tests run those of the Python library, so that `go test ./...` does.
package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestPython(t *testing.T) {
	if out, err := python(t, "-m", "unittest", "discover", "-s", "tests", "-t", "."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestReference runs each complete hook in the documentation with --config.
func TestReference(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "reference", "python-library.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```python\n#!")[1:]
	if len(blocks) == 0 {
		t.Fatal("the page has no hook")
	}
	for i, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		out, err := python(t, "-c", "#!"+text, "--config")
		var config struct{ ConfigVersion string }
		if err != nil || yaml.Unmarshal(out, &config) != nil || config.ConfigVersion != "v1" {
			t.Errorf("hook %d ended with %v and printed:\n%s", i, err, out)
		}
	}
}

// python runs the interpreter in this folder. Its warnings are failures: they announce what the next Python does not have.
func python(t *testing.T, arguments ...string) ([]byte, error) {
	t.Helper()
	program, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	cmd := exec.Command(program, append([]string{"-W", "error"}, arguments...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	return cmd.CombinedOutput()
}
