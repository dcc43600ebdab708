// Package python has no Go code: its test runs those of the Python library, so that `go test ./...` does.
package python

import (
	"os"
	"os/exec"
	"testing"
)

// Warnings of the interpreter are failures: they announce what the next Python does not have.
func TestPython(t *testing.T) {
	program, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	cmd := exec.Command(program, "-W", "error", "-m", "unittest", "discover", "-s", "tests", "-t", ".")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
