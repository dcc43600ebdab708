package shell

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestReference calls each whole hook in the documentation with --config.
func TestReference(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "reference", "shell-library.md"))
	if err != nil {
		t.Fatal(err)
	}
	lib, err := Unpack(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```bash\n#!")[1:]
	if len(blocks) == 0 {
		t.Fatal("the page has no hook")
	}
	for i, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		file := filepath.Join(t.TempDir(), fmt.Sprintf("hook-%d.sh", i))
		if err := os.WriteFile(file, []byte("#!"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("bash", file, "--config")
		cmd.Env = append(os.Environ(), "SHELL_LIB="+lib)
		out, err := cmd.CombinedOutput()
		var config struct{ ConfigVersion string }
		if err != nil || yaml.Unmarshal(out, &config) != nil || config.ConfigVersion != "v1" {
			t.Errorf("hook %d ended with %v and printed:\n%s", i, err, out)
		}
	}
}
