package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// simple starts an operator with hooks in sh, by name.
func simple(t *testing.T, cluster *testenv.Cluster, hooks map[string]string, args ...string) *testenv.Operator {
	t.Helper()
	return testenv.Start(t, testenv.OperatorOptions{HooksDir: testenv.Hooks(t, hooks), Kubeconfig: cluster.Kubeconfig, Args: args})
}

func clientOf(t *testing.T, cluster *testenv.Cluster) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func hookText(config, run string) string {
	return "#!/bin/sh\nif [ \"$1\" = --config ]; then cat <<'END'\n" + config + "\nEND\nexit; fi\n" + run + "\n"
}

// Names with every character that the API server lets through, in objects that hooks see and in objects that they change.
func TestOddNames(t *testing.T) {
	wanted(t, "odd-names")
	together(t)
	cluster := testenv.Shared(t)
	client := clientOf(t, cluster)
	names := []string{
		"a", strings.Repeat("long.", 50) + "end", "0.0.0", "system:weird:name", `quotes " and ' and \`, "sp ace", "ünïcödé-名前-🙂",
		"$(echo owned)", "`echo owned`", "; echo owned", "<tag>&amp;", "a=b,c", "?q=1#f", "-n", "~", "{{.}}", "new\\nline", "*",
	}
	label := map[string]string{"odd": fmt.Sprint("names-", os.Getpid())}
	for _, name := range names {
		_, err := client.RbacV1().ClusterRoles().Create(t.Context(),
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: label}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		t.Cleanup(func() { _ = client.RbacV1().ClusterRoles().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
	op := simple(t, cluster, map[string]string{"hook.sh": hookText(fmt.Sprintf(`
configVersion: v1
kubernetes:
- {kind: ClusterRole, executeHookOnEvent: [Deleted], labelSelector: {matchLabels: {odd: %q}}}`, label["odd"]),
		// All are changed, in each of the ways, and then removed.
		`jq -c '.[0].objects // [] | .[].object | {apiVersion, kind, name: .metadata.name} |
  . + {operation: "MergePatch", mergePatch: {metadata: {annotations: {merged: .name}}}},
  . + {operation: "JSONPatch", jsonPatch: [{op: "add", path: "/metadata/annotations/patched", value: .name}]},
  . + {operation: "JQPatch", jqFilter: ".metadata.annotations.filtered = .metadata.name"},
  . + {operation: "Delete"}' $BINDING_CONTEXT_PATH > $KUBERNETES_PATCH_PATH
printf 'gone '; jq -c 'map(select(.watchEvent == "Deleted") | .object.metadata | [.name, .annotations.merged, .annotations.patched, .annotations.filtered])' $BINDING_CONTEXT_PATH`)})
	op.UntilLog("Kubernetes bindings for hook are enabled successfully")
	op.Until("all removals", func(records []testenv.Record) bool {
		gone := map[string]bool{}
		for _, r := range records {
			text, ok := strings.CutPrefix(r.Fields["msg"], "gone ")
			var all [][4]string
			if !ok || json.Unmarshal([]byte(text), &all) != nil {
				continue
			}
			for _, one := range all {
				gone[one[0]] = true
				if one[1] != one[0] || one[2] != one[0] || one[3] != one[0] {
					t.Errorf("%q was changed to %q", one[0], one[1:])
				}
			}
		}
		return len(gone) == len(names)
	})
}
