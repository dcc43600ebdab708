package examples

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestCases runs the test files of the examples, of which every hook has one.
func TestCases(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	files, err := filepath.Glob("*/tests/*_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if hook, ok := strings.CutPrefix(strings.TrimSpace(line), "hook: "); ok {
				tested[filepath.Join(filepath.Dir(file), hook)] = true
			}
		}
	}
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "/hooks/") {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode()&0o111 != 0 && !tested[path] {
			t.Errorf("no test file names the hook %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Hooks with settings.worker run both ways.
	for _, workers := range []string{"--workers=true", "--workers=false"} {
		cmd := exec.Command(testenv.Binary(t), "test", ".", workers)
		cmd.Env = append(os.Environ(), "PATH="+test.Tools(t)+":"+os.Getenv("PATH"), pythonPath())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", workers, err, out)
		}
	}
}
