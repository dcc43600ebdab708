package security

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Line "large objects": repeated changes of a large object, while its hook fails, make no run that never fits. No run gets more than its
// bound in bytes, each change is delivered, in order, and the queue continues once the hook is fixed.
func TestMergedGiants(t *testing.T) {
	const updates, bound, size = 60, 32 << 20, 900_000
	cluster := testenv.Shared(t)
	ns, results := cluster.Namespace(t), t.TempDir()
	client := testenv.Client(t, cluster.Config(t))
	write := func(verb, path, name string, n int) {
		t.Helper()
		body := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q}, "data": {"n": "%d", "text": %q}}`, name, n,
			strings.Repeat("x", size))
		if err := client.Verb(verb).AbsPath("/api/v1/namespaces", ns, "configmaps"+path).SetHeader("Content-Type", "application/json").
			Body([]byte(body)).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	write(http.MethodPost, "", "giant", 0)
	files := map[string]string{
		"giant.sh": testenv.Testdata(t, "giant.sh", "NAMESPACE", ns), "other.sh": testenv.Testdata(t, "bystander.sh", "NAMESPACE", ns),
	}
	op := testenv.Start(t, testenv.OperatorOptions{
		Binary: testenv.Released(t), HooksDir: testenv.Hooks(t, files), Kubeconfig: cluster.Kubeconfig, Env: []string{"RESULTS=" + results},
		Args: []string{"--retry-min-delay", "1h", "--retry-max-delay", "1h"},
	})
	op.UntilLog("Kubernetes bindings for hook are enabled successfully", "hook", "giant.sh")
	op.UntilLog("Kubernetes bindings for hook are enabled successfully", "hook", "other.sh")
	for i := range updates {
		write(http.MethodPut, "/giant", "giant", i+1)
	}
	write(http.MethodPost, "", "small", 0)
	op.UntilCount(updates, "queue task", "hook", "giant.sh")
	op.UntilCount(1, "queue task", "hook", "other.sh")
	op.UntilLog("Hook failed. Will retry after delay.")
	op.Ask("queue", "retry", "main") // all changes wait now
	op.UntilCount(2, "Hook failed. Will retry after delay.")
	if err := os.WriteFile(filepath.Join(results, "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	op.Ask("queue", "retry", "main")
	op.UntilLog("the other hook has run")

	text, err := os.ReadFile(filepath.Join(results, "numbers"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range updates {
		want = append(want, strconv.Itoa(i+1))
	}
	if got := strings.Fields(string(text)); !slices.Equal(got, want) {
		t.Errorf("the hook was given the changes %v", got)
	}
	text, err = os.ReadFile(filepath.Join(results, "sizes"))
	if err != nil {
		t.Fatal(err)
	}
	sizes := strings.Fields(string(text))
	for _, is := range sizes {
		if n, err := strconv.Atoi(is); err != nil || n > bound {
			t.Errorf("a run had %s bytes (%v), more than %d", is, err, bound)
		}
	}
	after := peak(t, op.Pid())
	t.Logf("%d runs with %v bytes; peak %d MiB", len(sizes), sizes, after>>20)
	if after > enough {
		t.Errorf("the peak is %d MiB", after>>20)
	}
}
