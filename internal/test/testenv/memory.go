package testenv

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
)

// Memory is an API server in memory, for one test, which needs no binary and runs with -short. It has no controllers, admission and
// permissions, so no UserKubeconfig, and nothing that can be killed.
func Memory(t testing.TB) *Cluster {
	t.Helper()
	server := httptest.NewServer(memory.New(memory.Options{Kinds: memory.BuiltIns(), Live: true}))
	t.Cleanup(func() {
		server.CloseClientConnections() // watches do not end by themselves
		server.Close()
	})
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: memory, contexts:
[{name: memory, context: {cluster: memory, user: admin}}],
clusters: [{name: memory, cluster: {server: %q}}], users: [{name: admin}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Cluster{Dir: dir, Kubeconfig: kubeconfig}
}
