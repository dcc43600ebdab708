package applyset

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// parents returns the names of the parents in a namespace.
func parents(t *testing.T, client rest.Interface, namespace string) (found []string) {
	t.Helper()
	text, err := kube.Send(t.Context(), client.Get().AbsPath("/api/v1/namespaces", namespace, "configmaps").Param("labelSelector", idLabel))
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []live }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		found = append(found, o.Name)
	}
	return found
}

// The parent of a set whose owner is gone is deleted by a sweep when no member is left.
func TestParentsAreDeleted(t *testing.T) {
	cluster := testenv.Shared(t)
	client := testenv.Client(t, cluster.Config(t))
	own, namespace := cluster.Namespace(t), cluster.Namespace(t)
	o := newOperator(t, cluster.Config(t), own, own, false)
	for _, name := range []string{"stays", "goes", "keeps"} {
		post(t, client, namespace, "configmaps", fmt.Sprintf(`{"metadata": {"name": %q}}`, name))
		claim := ""
		if name == "keeps" {
			claim = `, {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: claim}, spec: {accessModes: [ReadWriteOnce], ` +
				`resources: {requests: {storage: 1Mi}}}}`
		}
		if err := o.sync(t.Context(),
			"web.sh", fmt.Sprintf(`{operation: Sync, set: %[2]s, owner: {apiVersion: v1, kind: ConfigMap, namespace: %[1]s, name: %[2]s}, `+
				`objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: member-%[2]s}}%[3]s]}`, namespace, name, claim)); err != nil {
			t.Fatal(err)
		}
	}
	if all := parents(t, client, own); len(all) != 3 {
		t.Fatalf("the parents are %v", all)
	}
	cluster.Kubectl(t, "-n", namespace, "delete", "configmap", "goes", "keeps")
	cluster.Kubectl(t, "-n", namespace, "wait", "--for=delete", "configmap/member-goes", "configmap/member-keeps", "--timeout=60s")
	if err := newOperator(t, cluster.Config(t), own, own, false).Sweep(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	left := parents(t, client, own)
	for i := range left {
		left[i] = left[i][:strings.LastIndexByte(left[i], '-')]
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"shell-operator-keeps", "shell-operator-stays"}) {
		t.Errorf("the parents are %v", left)
	}
}

// Records outside the operator's namespace are not read: their users can write them. Of one with more places than a Sync records, nothing
// is read.
func TestForgedRecords(t *testing.T) {
	cluster := inMemory(t)
	client := testenv.Client(t, cluster.Config(t))
	own, namespace := cluster.Namespace(t), cluster.Namespace(t)
	post(t, client, namespace, "configmaps", `{"metadata": {"name": "owner"}}`)
	o := newOperator(t, cluster.Config(t), own, own, false)
	many := map[string][]string{}
	for i := range maxPlaces + 1 {
		many[fmt.Sprintf("Kind%d", i)] = []string{""}
	}
	text, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	forged := namesOf(o.opts.Instance, namespace, "web.sh", "web", &SetOwner{Kind: "ConfigMap", Namespace: namespace, Name: "owner"})
	record, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": forged.parent,
		"labels": map[string]string{idLabel: forged.id}, "annotations": map[string]string{
			setAnnotation: forged.set, ownerAnnotation: forged.owner, formatAnnotation: format, placesAnnotation: string(text),
		}}})
	if err != nil {
		t.Fatal(err)
	}
	post(t, client, namespace, "configmaps", string(record))
	if sets, err := o.List(t.Context()); err != nil || len(sets) != 0 {
		t.Errorf("the list is %v, %v", sets, err)
	}
	document := `{operation: Sync, set: web, owner: {apiVersion: v1, kind: ConfigMap, namespace: ` + namespace + `, name: owner}, ` +
		`objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]}`
	if err := o.sync(t.Context(), "web.sh", document); err != nil {
		t.Error(err)
	}
	cluster.Kubectl(t, "-n", own, "delete", "configmap", forged.parent)
	post(t, client, own, "configmaps", string(record))
	if err := newOperator(t, cluster.Config(t), own, own, false).sync(t.Context(), "web.sh", document); err == nil ||
		!strings.Contains(err.Error(), "more than 2000 kinds and namespaces") {
		t.Errorf("error %v", err)
	}
}
