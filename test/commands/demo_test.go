package commands

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
)

// TestDemo runs make demo in a copy of the repository, in which nothing is built.
func TestDemo(t *testing.T) {
	if !test.Long() {
		t.Skip("it builds programs: run 'make long'. TestDev starts the same API server")
	}
	repository, temp := t.TempDir(), t.TempDir()
	copied, err := exec.Command("bash", "-euo", "pipefail", "-c", `cd "$1" && (git ls-files && git ls-files -o --exclude-standard) |
		tar c -T - | tar x -C "$2" && cd "$2" && git init -q`, "-", test.Root(), repository).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, copied)
	}
	cmd := exec.Command("make", "demo")
	cmd.Dir, cmd.Env = repository, append(os.Environ(), "TMPDIR="+temp)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "demo: an API server in memory, not Kubernetes") ||
		!strings.Contains(string(out), `{"data":{"title":"cart"},"name":"shop-cart","owner":"shop"}`) {
		t.Errorf("%v\n%s", err, out)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
