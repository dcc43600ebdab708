package finalizer

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

var configMaps = kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap",
	Namespaced: true}

// log is a log that can be read while it is written.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// count counts the records with a text.
func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// options returns Options for a Record in a new namespace of an API server in memory.
func options(t *testing.T) (Options, *log, *testenv.Cluster) {
	t.Helper()
	testenv.Require(t) // for kubectl
	cluster, to := testenv.Memory(t), &log{}
	namespace := cluster.Namespace(t)
	return Options{Client: testenv.Client(t, cluster.Config(t)), Namespace: func() (string, error) { return namespace, nil },
		Instance: "ns.operator", Log: slog.New(slog.NewTextHandler(to, nil))}, to, cluster
}

func claim(t *testing.T, r *Record, finalizer string) *hook.Hook {
	t.Helper()
	h := &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: finalizer}}}
	if err := r.Claim(t.Context(), h, 0, configMaps); err != nil {
		t.Fatal(err)
	}
	return h
}

// An orphan is logged when it is found, and when it changes: a search follows each change of the hooks. The finalizer and the entry stay.
func TestOrphansAreLoggedOnce(t *testing.T) {
	o, logged, cluster := options(t)
	namespace, _ := o.Namespace()
	claim(t, New(o), "example.com/f")
	r, exist := New(o), 0
	for _, step := range []struct{ objects, logged int }{{2, 1}, {2, 1}, {1, 2}, {1, 2}, {0, 2}, {1, 3}} {
		for ; exist < step.objects; exist++ {
			cluster.KubectlInput(t, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: o-%d, finalizers: [example.com/f]}}`, exist),
				"-n", namespace, "create", "--field-manager", kube.FieldManager(o.Instance), "-f", "-")
		}
		for ; exist > step.objects; exist-- {
			cluster.Kubectl(t, "-n", namespace, "patch", "configmap", fmt.Sprint("o-", exist-1), "--type=merge", "-p",
				`{"metadata": {"finalizers": null}}`)
			cluster.Kubectl(t, "-n", namespace, "delete", "configmap", fmt.Sprint("o-", exist-1))
		}
		if err := r.CheckOrphans(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if n := logged.count("A finalizer has no hook any more"); n != step.logged || len(r.Orphans()) != min(step.objects, 1) {
			t.Fatalf("with %d objects it is logged %d times, want %d; orphans %v", step.objects, n, step.logged, r.Orphans())
		}
	}
	if all, err := r.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the entries are %v, %v", all, err)
	}
}
