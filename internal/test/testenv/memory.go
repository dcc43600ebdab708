package testenv

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/test"
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
	// Of the form that testcluster writes, which copies of it rely on.
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: testcluster
clusters:
- name: testcluster
  cluster:
    server: %s
users:
- name: admin
  user: {}
contexts:
- name: testcluster
  context:
    cluster: testcluster
    user: admin
`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Cluster{Dir: dir, Kubeconfig: kubeconfig, memory: true}
}

// topics are what an API server in memory, or make test, does not have.
var topics = []string{"webhooks", "permissions", "controllers", "limits", "kubectl", "programs"}

// CheckNeed returns an error if a need is not "TOPIC: REASON".
func CheckNeed(need string) error {
	if topic, reason, _ := strings.Cut(need, ": "); reason == "" || !slices.Contains(topics, topic) {
		return fmt.Errorf("the need %q is not TOPIC: REASON, with one of %q", need, topics)
	}
	return nil
}

// Needs skips a test in memory, for a need that CheckNeed accepts: make test-cluster runs it.
func Needs(t testing.TB, need string) {
	t.Helper()
	if err := CheckNeed(need); err != nil {
		t.Fatal(err)
	}
	if test.InMemory() {
		t.Skip("not in memory: " + need)
	}
}

// Either returns the control plane that tests share, or where there is none an API server in memory for this test: the test is part of
// make test, and of make test-cluster.
func Either(t testing.TB) *Cluster {
	t.Helper()
	return either(t, Shared)
}

// EitherOwn is Either for tests that would disturb others.
func EitherOwn(t testing.TB) *Cluster {
	t.Helper()
	return either(t, func(t testing.TB) *Cluster { t.Helper(); return Own(t) })
}

func either(t testing.TB, cluster func(testing.TB) *Cluster) *Cluster {
	t.Helper()
	if !test.InMemory() {
		return cluster(t)
	}
	if testing.Short() {
		t.Skip("runs an operator, which -short leaves out")
	}
	return Memory(t)
}
