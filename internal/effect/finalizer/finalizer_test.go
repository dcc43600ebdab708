package finalizer

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Many clients add and remove finalizers of one object, and claim entries of one record, at the same time: none is lost.
func TestConcurrentClients(t *testing.T) {
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kube.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, "-n", namespace, "create", "configmap", "one")
	uid := c.Kubectl(t, "-n", namespace, "get", "configmap", "one", "-o", "jsonpath={.metadata.uid}")
	res := kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap",
		Namespaced: true}
	record := Options{Client: client, Namespace: func() (string, error) { return namespace, nil }, Instance: "one",
		Log: slog.New(slog.DiscardHandler)}
	const clients = 4
	var names []string
	var working sync.WaitGroup
	for i := range clients {
		name := fmt.Sprintf("example.com/f%d", i)
		names = append(names, name)
		working.Go(func() {
			object := kube.Finalized{Resource: res, Namespace: namespace, Name: "one", UID: uid}
			if text, err := kube.AddFinalizer(t.Context(), client, object, name, "m"); err != nil || !strings.Contains(string(text), name) {
				t.Errorf("%v: %s", err, text)
			}
			h := &hook.Hook{Name: name, Kubernetes: []hook.Kubernetes{{Finalizer: name}}}
			if err := New(record).Claim(t.Context(), h, 0, res); err != nil {
				t.Error(err)
			}
		})
	}
	working.Wait()
	found := strings.Fields(strings.Trim(c.Kubectl(t, "-n", namespace, "get", "configmap", "one", "-o", "jsonpath={.metadata.finalizers[*]}"),
		"[]"))
	if slices.Sort(found); !slices.Equal(found, names) {
		t.Errorf("the object has %v", found)
	}
	if entries, err := New(record).List(t.Context()); err != nil || len(entries) != clients {
		t.Errorf("the record has %v (%v)", entries, err)
	}
	other := record
	other.Instance = "two"
	err = New(other).Claim(t.Context(), &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: names[0]}}}, 0, res)
	if err == nil || !strings.Contains(err.Error(), `belongs to the installation "one" (hook "example.com/f0")`) {
		t.Errorf("another installation: %v", err)
	}
	for _, name := range names {
		working.Go(func() {
			object := kube.Finalized{Resource: res, Namespace: namespace, Name: "one", UID: uid, Finalizers: []string{"outdated"}}
			if _, err := kube.RemoveFinalizer(t.Context(), client, object, name); err != nil {
				t.Error(err)
			}
		})
	}
	working.Wait()
	if left := c.Kubectl(t, "-n", namespace, "get", "configmap", "one", "-o", "jsonpath={.metadata.finalizers}"); left != "" {
		t.Errorf("the object keeps %s", left)
	}
}
