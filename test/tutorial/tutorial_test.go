package tutorial

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/pages"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestFirstHook follows the first tutorial in directories of its own, and with pages of the operator on loopback only.
func TestFirstHook(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a control plane of its own")
	}
	t.Parallel()
	test.Tools(t)
	testenv.Shared(t) // skips where there is no test cluster
	text, err := os.ReadFile(filepath.Join(test.Root(), "docs", "tutorial", "first-hook.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), "/tmp/first-", t.TempDir()+"/")
	// A folder with a short name: paths of sockets are limited.
	sockets, err := os.MkdirTemp("", "tutorial-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	r := &reader{t: t, dir: repository(t), env: append(os.Environ(),
		"SHELL_OPERATOR_LISTEN_ADDRESS=127.0.0.1", "SHELL_OPERATOR_LISTEN_PORT=0", "SHELL_OPERATOR_TMP_DIR="+filepath.Join(t.TempDir(), "tmp"),
		"SHELL_OPERATOR_RETRY_MIN_DELAY=3s", "DEBUG_UNIX_SOCKET="+filepath.Join(sockets, "socket"))}
	defer func() {
		r.stop(r.operator)
		r.stop(r.cluster)
		if t.Failed() && r.operator != nil {
			text, _ := r.operator.printed()
			t.Logf("the last operator printed:\n%s", text)
		}
	}()
	all := pages.Blocks(page)
	for i, b := range all {
		if what, ok := strings.CutPrefix(b.Mark, "wait: "); ok {
			if err := r.operator.until(what); err != nil {
				t.Fatalf("line %d: waited for %q: %v", b.Line, what, err)
			}
		}
		switch b.Kind {
		case "sh":
			if strings.HasPrefix(b.Text, "rm -r ") { // the last step comes after Ctrl-C, in both terminals
				r.stop(r.operator)
				r.stop(r.cluster)
			} else if i+1 < len(all) && all[i+1].Kind == "sh" && r.operator != nil && strings.HasPrefix(b.Text, "export ") {
				if err := r.operator.until("Hook executed successfully"); err != nil {
					t.Fatalf("line %d: %v", b.Line, err)
				}
			}
			r.do(b)
		case "":
			r.sees(b)
		}
	}
}

// repository is where the commands of the page are run: here, or in a clone of what is committed, in which nothing has been
// built yet, if FRESH_CLONE is set.
func repository(t *testing.T) string {
	t.Helper()
	if os.Getenv("FRESH_CLONE") == "" {
		return test.Root()
	}
	dir := filepath.Join(t.TempDir(), "shell-operator")
	if out, err := exec.Command("git", "clone", "--quiet", test.Root(), dir).CombinedOutput(); err != nil {
		t.Fatalf("cannot clone the repository: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin")); !os.IsNotExist(err) {
		t.Fatalf("something has been built in the clone: %v", err)
	}
	return dir
}
