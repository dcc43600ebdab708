package deploy

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestWorkflows runs actionlint, which validates the syntax of workflows and the inputs of common actions.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testenv.Root(), ".github", "workflows", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	// Without the checkers of scripts, which are not on every machine.
	if out, err := exec.Command(tool(t, "actionlint"), append([]string{"-shellcheck=", "-pyflakes=", "-no-color"}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("actionlint: %v\n%s", err, out)
	}
}
