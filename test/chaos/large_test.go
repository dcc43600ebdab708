package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Objects of 5 MiB are listed, watched, filtered, kept in snapshots, reviewed and made by hooks, whole. (A control plane
// refuses them by default, but servers that are joined to a cluster need not.)
func TestLargeObjects(t *testing.T) {
	wanted(t, "large-objects")
	cluster := testenv.Shared(t)
	w := &world{t: t, cluster: cluster, client: clientOf(t, cluster), namespace: cluster.Namespace(t)}
	var err error
	w.dynamic, err = dynamic.NewForConfig(cluster.Config(t))
	w.must(err)
	w.makeCRD("v1")
	widgets := w.dynamic.Resource(schema.GroupVersionResource{Group: w.group(), Version: "v1", Resource: "widgets"}).Namespace(w.namespace)

	const size = 5 << 20
	text := strings.Repeat("0123456789abcd\"\n", size/16) // it is longer as JSON
	large := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": w.group() + "/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "large", "namespace": w.namespace, "annotations": map[string]any{"count": "1"}},
		"spec":     map[string]any{"text": text},
	}}
	large, err = widgets.Create(t.Context(), large, metav1.CreateOptions{})
	w.must(err)

	in := fmt.Sprintf(`{apiVersion: %s/v1, kind: Widget, namespace: {nameSelector: {matchNames: [%s]}}`, w.group(), w.namespace)
	op := simple(t, cluster, map[string]string{
		// It makes a copy of the whole object in each run.
		"copy.sh": hookText(fmt.Sprintf(`
configVersion: v1
kubernetes:
- {name: b, nameSelector: {matchNames: [large]}, includeSnapshotsFrom: [b], jqFilter: '{count: .metadata.annotations.count, length: (.spec.text | length)}', %s}`, in[1:]),
			`jq -r '"copies " + (.[-1].snapshots.b[0].filterResult | tojson)' $BINDING_CONTEXT_PATH
jq -c '.[-1] | (.object // .objects[0].object) | .metadata |= {namespace, annotations, name: "copy"} | {operation: "CreateOrUpdate", object: .}' $BINDING_CONTEXT_PATH > $KUBERNETES_PATCH_PATH`),
		"review.sh": hookText(fmt.Sprintf(`
configVersion: v1
kubernetesValidating:
- name: large.example.com
  failurePolicy: Fail
  timeoutSeconds: 30
  namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}
  rules: [{apiGroups: [%s], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [widgets], scope: Namespaced}]`, w.namespace, w.group()),
			`jq -r '.[0].review.request | "reviewed " + ([.name, (.object, .oldObject | .spec.text // "" | length)] | tojson)' $BINDING_CONTEXT_PATH
echo '{"allowed": true}' > $VALIDATING_RESPONSE_PATH`),
	})
	op.UntilLog(`copies {"count":"1","length":5242880}`)
	op.UntilLog("Webhooks are registered")
	large.SetAnnotations(map[string]string{"count": "2"})
	_, err = widgets.Update(t.Context(), large, metav1.UpdateOptions{})
	w.must(err)
	op.UntilLog(`reviewed ["large",5242880,5242880]`)
	op.UntilLog(`copies {"count":"2","length":5242880}`)
	op.UntilLog(`reviewed ["copy",5242880,5242880]`) // what a hook hands back is reviewed, too
	op.Until("the end of the second copy", func(records []testenv.Record) bool {
		ended := 0
		for _, r := range records {
			if r.Has("Hook executed successfully", "hook", "copy.sh") {
				ended++
			}
		}
		return ended == 2
	})
	copied, err := widgets.Get(context.Background(), "copy", metav1.GetOptions{})
	w.must(err)
	if got, _, _ := unstructured.NestedString(copied.Object, "spec", "text"); got != text || copied.GetAnnotations()["count"] != "2" {
		t.Errorf("the copy has %d bytes and is that of change %s", len(got), copied.GetAnnotations()["count"])
	}
}
