package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestRunCluster runs a hook on objects of a cluster, which it does not change.
func TestRunCluster(t *testing.T) {
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	c.Kubectl(t, "-n", ns, "create", "configmap", "menu", "--from-literal=soup=leek")
	c.Kubectl(t, "-n", ns, "create", "secret", "generic", "token", "--from-literal=value=top-secret")
	dir := testenv.Hooks(t, map[string]string{"menu.sh": `#!/bin/sh
if [ "${1:-}" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{name: maps, kind: ConfigMap, apiVersion: v1, jqFilter: .data, namespace: {nameSelector: {matchNames: [` + ns + `]}}, nameSelector: {matchNames: [menu]}}]}'
  exit
fi
jq -c '.[0] | {watchEvent, filterResult, objects}' "$BINDING_CONTEXT_PATH"
cat >"$KUBERNETES_PATCH_PATH" <<JSON
{"operation": "MergePatch", "kind": "ConfigMap", "namespace": "` + ns + `", "name": "menu", "mergePatch": {"data": {"soup": "tomato"}}}
{"operation": "MergePatch", "kind": "Secret", "namespace": "` + ns + `", "name": "token", "mergePatch": {"stringData": {"value": "also-secret"}}}
{"operation": "Create", "object": {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "` + ns + `", "name": "web"}, "spec": {"ports": [{"port": 80}]}}}
JSON
`})
	for _, test := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"--cluster"}, []string{`"objects":[{"filterResult":{"soup":"leek"}`, "3 operations, applied to the simulated cluster"}},
		{[]string{"--cluster", "--event", "Added=cm/" + ns + "/menu", "--diff"}, []string{
			`"filterResult":{"soup":"leek"},"objects":null,"watchEvent":"Added"`, "-   soup: leek", "+   soup: tomato", "+   value: masked, changed",
			"+   type: ClusterIP",
			"ConfigMap/" + ns + "/menu:", "Secret/" + ns + "/token:", "Service/" + ns + "/web:",
		}},
	} {
		out := command(t, c.Kubeconfig, append([]string{"run", "menu.sh", "--hooks-dir", dir}, test.args...)...)
		for _, part := range test.parts {
			if !strings.Contains(out, part) {
				t.Errorf("%q: %q is not in\n%s", test.args, part, out)
			}
		}
		if len(test.args) > 1 && (strings.Contains(out, "also-secret") || strings.Contains(out, "YWxzby1zZWNyZXQ")) {
			t.Errorf("%q prints a value of a Secret:\n%s", test.args, out)
		}
	}
	if now := c.Kubectl(t, "-n", ns, "get", "configmap/menu", "-o", "jsonpath={.data.soup}") +
		c.Kubectl(t, "-n", ns, "get", "service", "-o", "name"); now != "leek" {
		t.Errorf("the cluster has changed: %q", now)
	}
}

// TestRunClusterReview decides whether a webhook matches by the labels that the namespace has in the cluster, as the API server does.
func TestRunClusterReview(t *testing.T) {
	c := testenv.Shared(t)
	owned, other := c.Namespace(t), c.Namespace(t)
	c.Kubectl(t, "label", "namespace", owned, "example.com/owned=yes")
	dir := testenv.Hooks(t, map[string]string{"review.sh": `#!/bin/sh
if [ "${1:-}" = --config ]; then
  echo '{configVersion: v1, kubernetesValidating: [{name: r.example.com, namespace: {labelSelector: {matchLabels: {example.com/owned: "yes"}}}, rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]}]}'
  exit
fi
echo "reviewed $(jq -r '.[0].review.request.namespace' "$BINDING_CONTEXT_PATH")"
echo '{"allowed": true}' >"$VALIDATING_RESPONSE_PATH"
`})
	for ns, want := range map[string]string{owned: "reviewed " + owned,
		other: `namespace.labelSelector does not match the labels of namespace "` + other + `"`} {
		file := filepath.Join(t.TempDir(), "cm.yaml")
		if err := os.WriteFile(file, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: new, namespace: "+ns+"}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, _ := try(t, c.Kubeconfig, "run", "review.sh", "--hooks-dir", dir, "--cluster", "--review", "CREATE="+file); !strings.Contains(out,
			want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// TestRunClusterSet shows what a Sync changes in the set of the operator: it adopts, changes and prunes objects by a dry run.
func TestRunClusterSet(t *testing.T) {
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	dir := testenv.Hooks(t, map[string]string{"set.sh": `#!/bin/sh
if [ "${1:-}" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
echo '{"operation": "Sync", "set": "web", "force": true, "objects": ['"$OBJECTS"']}' >"$KUBERNETES_PATCH_PATH"
`})
	object := func(name, data string) string {
		return `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "` + name + `"}, "data": {"k": "` + data + `"}}`
	}
	run := func(args ...string) string {
		t.Helper()
		out, _ := try(t, c.Kubeconfig, append([]string{"run", "set.sh", "--hooks-dir", dir, "--namespace", ns}, args...)...)
		return out
	}
	t.Setenv("OBJECTS", object("changed", "1")+","+object("same", "1")+","+object("pruned", "1"))
	if out := run("--apply"); !strings.Contains(out, "1 operation, applied") {
		t.Fatal(out)
	}
	c.Kubectl(t, "-n", ns, "create", "configmap", "adopted", "--from-literal=theirs=1")
	state := func() string {
		return c.Kubectl(t, "-n", ns, "get", "configmaps", "-o", "jsonpath={range .items[*]}{.metadata.name} {.metadata.resourceVersion},{end}")
	}
	before := state()
	t.Setenv("OBJECTS", object("changed", "2")+","+object("same", "1")+","+object("adopted", "1"))
	out := run("--cluster", "--startup", "--diff")
	for _, part := range []string{"ConfigMap/" + ns + "/changed:", `-   k: "1"`, `+   k: "2"`, "ConfigMap/" + ns + "/adopted:",
		"ConfigMap/" + ns + "/pruned:", "- kind: ConfigMap"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in\n%s", part, out)
		}
	}
	for _, part := range []string{"/same:", "/shell-operator-web"} {
		if strings.Contains(out, part) {
			t.Errorf("%q is in\n%s", part, out)
		}
	}
	t.Setenv("OBJECTS", object("changed", "1")+","+object("same", "1")+","+object("pruned", "1"))
	if out := run("--cluster", "--startup", "--diff"); !strings.Contains(out, "note: the operations change nothing") {
		t.Errorf("where nothing changes:\n%s", out)
	}
	t.Setenv("OBJECTS", object("changed", "2")+","+object("same", "1")+","+object("adopted", "1"))
	// To another installation the objects are foreign.
	if out := run("--cluster", "--startup", "--diff", "--instance", "other"); !strings.Contains(out, "the last one failed") ||
		strings.Contains(out, "/changed:") || strings.Contains(out, "/pruned:") {
		t.Errorf("with another instance:\n%s", out)
	}
	if after := state(); after != before {
		t.Errorf("the cluster has changed:\n%s\n%s", before, after)
	}
}
