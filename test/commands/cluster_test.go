package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// sameHook prints what it gets, without what only a cluster decides, and requests the operations of the variable OP.
const sameHook = `#!/bin/sh
set -eu
if [ "${1:-}" = --config ]; then
  cat <<YAML
configVersion: v1
schedule:
- {name: tick, crontab: "0 3 * * *", includeSnapshotsFrom: [maps]}
kubernetes:
- name: maps
  apiVersion: v1
  kind: ConfigMap
  labelSelector: {matchLabels: {same: "yes"}}
  jqFilter: "{name: .metadata.name, namespace: .metadata.namespace, data, finalizers: .metadata.finalizers, deleted: (.metadata.deletionTimestamp != null)}"
  keepFullObjectsInMemory: false
YAML
  exit
fi
jq -c '.[] | {type, watchEvent, filterResult, objects, snapshots}' "$BINDING_CONTEXT_PATH"
printf '%s' "$OP" >"$KUBERNETES_PATCH_PATH"
`

// sameObjects are the objects of each case.
const sameObjects = `apiVersion: v1
kind: ConfigMap
metadata: {name: same-one, NAMESPACE labels: {same: "yes"}}
data: {a: "1", b: "2"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: same-held, NAMESPACE labels: {same: "yes"}, finalizers: [example.com/hold]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: same-other, NAMESPACE}
`

// sameTriggers and sameOperations are combined to cases.
var (
	sameTriggers = []string{
		"event: {Added: cm/same-one}", "event: {Modified: NSmodified.yaml}", "event: {Deleted: cm/same-one}", "event: {Deleting: cm/same-held}", "event: {Deleting: cm/same-one}",
		"event: [{Modified: NSmodified.yaml}, {Deleted: cm/same-held}, {Added: NSnew.yaml}], together: true",
		"event: [{Added: NSnew.yaml}, {Modified: NSmodified.yaml}, {Modified: NSmodified.yaml}]", "tick: tick", "parallel: false",
	}
	sameOperations = []string{
		`{"operation": "Create", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "same-made", "namespace": "NS", "labels": {"same": "yes"}}, "data": {"x": "1"}}}`,
		`{"operation": "CreateIfNotExists", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "same-one", "namespace": "NS"}, "data": {"x": "1"}}}`,
		`{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "same-other", "namespace": "NS", "labels": {"same": "yes"}}, "data": {"x": "1"}}}`,
		`{"operation": "Apply", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "same-made", "namespace": "NS"}, "data": {"x": "1"}}}`,
		`{"operation": "MergePatch", "kind": "cm", "namespace": "NS", "name": "same-other", "mergePatch": {"data": {"x": "1"}, "metadata": {"labels": {"y": "z"}}}}`,
		`{"operation": "JSONPatch", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "NS", "name": "same-other", "jsonPatch": [{"op": "add", "path": "/data", "value": {"x": "1"}}]}`,
		`{"operation": "JQPatch", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "NS", "name": "same-other", "jqFilter": ".data.x = \"1\""}`,
		`{"operation": "Delete", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "NS", "name": "same-other"}`,
		`{"operation": "DeleteInBackground", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "NS", "name": "same-other"}`,
		`{"operation": "MergePatch", "kind": "cm", "namespace": "NS", "name": "same-held", "ignoreMissingObject": true, "mergePatch": {"metadata": {"finalizers": null}}}`,
		`{"operation": "DeleteNonCascading", "kind": "cm", "namespace": "NS", "name": "same-other"} {"operation": "Create", "object": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "same-secret", "namespace": "NS"}, "type": "Opaque"}}`,
		`{"operation": "MergePatch", "kind": "cm", "namespace": "NS", "name": "same-missing", "mergePatch": {"data": {"x": "1"}}}`,
	}
)

// writeSame writes the hook, its fixtures and n cases with empty expectations, and returns the test file.
func writeSame(t *testing.T, dir, namespace string, n int) string {
	t.Helper()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("same.sh", sameHook, 0o755)
	for _, ns := range []string{"default", namespace} {
		in := "namespace: " + ns + ","
		write(ns+"-objects.yaml", strings.ReplaceAll(sameObjects, "NAMESPACE", in), 0o600)
		write(ns+"-modified.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: same-one, "+in+" labels: {same: \"yes\"}}, data: {a: changed}}\n", 0o600)
		write(ns+"-new.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: same-new, "+in+" labels: {same: \"yes\"}}, data: {n: \"1\"}}\n", 0o600)
	}
	var b strings.Builder
	b.WriteString("cases:\n")
	for i := range n {
		ns := "default"
		if i%10 == 9 { // a namespace takes seconds to be gone
			ns = namespace
		}
		trigger, operation := sameTriggers[i%len(sameTriggers)], sameOperations[(i+i/len(sameTriggers))%len(sameOperations)]
		trigger = strings.ReplaceAll(strings.ReplaceAll(trigger, ", together", "\n  together"), "NS", ns+"-")
		fmt.Fprintf(&b, "- name: case %d\n  objects: %s-objects.yaml\n  %s\n  env: {OP: '%s'}\n  expect:\n    runs: 1000\n    stdout: [unknown]\n    operations: []\n    after:\n", i, ns, trigger, strings.ReplaceAll(operation, "NS", ns))
		for _, name := range []string{"same-one", "same-held", "same-other", "same-made", "same-new"} {
			fmt.Fprintf(&b, "    - {kind: ConfigMap, data: null, metadata: {name: %s, namespace: %s, labels: null, finalizers: null}}\n", name, ns)
		}
		b.WriteString("    exit: 200\n    error: unknown\n")
	}
	write("same_test.yaml", b.String(), 0o600)
	return filepath.Join(dir, "same_test.yaml")
}

// TestSameResult compares what test records offline with what it records on a cluster.
func TestSameResult(t *testing.T) {
	c := testenv.Shared(t)
	n := 10
	if testenv.Long() {
		n = 100
	}
	namespace := c.Namespace(t) + "-case"
	record := func(args ...string) string {
		file := writeSame(t, t.TempDir(), namespace, n)
		out, status := try(t, c.Kubeconfig, append([]string{"test", "--update", file}, args...)...)
		text, err := os.ReadFile(file)
		if err != nil || status > 1 {
			t.Fatalf("status %d, %v\n%s\n%s", status, err, out, text)
		}
		// --update leaves objects that do not exist: they are compared, too.
		for _, m := range regexp.MustCompile(`(?m)^ +\S+_test.yaml:(\d+): (.*)$`).FindAllStringSubmatch(out, -1) {
			missing, _, _ := strings.Cut(m[2], ";")
			if !strings.HasPrefix(missing, "there is no ConfigMap ") {
				t.Errorf("not recorded: %s", m[0])
			}
			text = fmt.Appendf(text, "%s: %s\n", m[1], missing)
		}
		if strings.Contains(string(text), "unknown") || strings.Contains(string(text), "1000") {
			t.Errorf("not recorded: %s", text)
		}
		return string(text)
	}
	offline, online := record(), record("--cluster", "--kube-config", c.Kubeconfig)
	if offline != online {
		before, after := strings.Split(offline, "\n"), strings.Split(online, "\n")
		for i := range min(len(before), len(after)) {
			if before[i] != after[i] {
				t.Errorf("line %d:\noffline %s\ncluster %s", i+1, before[i], after[i])
			}
		}
	}
	leavesNothing(t, c, namespace)
}

// leavesNothing checks that no object of a case is there.
func leavesNothing(t *testing.T, c *testenv.Cluster, namespace string) {
	t.Helper()
	all := c.Kubectl(t, "get", "configmaps,secrets,services,namespaces", "-A", "-o", "jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}")
	for line := range strings.Lines(all) {
		if strings.Contains(line, "/same-") || strings.Contains(line, namespace+"\n") {
			t.Errorf("it left %s", line)
		}
	}
}

// differences are known: each case passes offline and not on a cluster.
var differences = []struct{ name, keys string }{
	{"objects are validated", `
  tick: tick
  env: {OP: '{"operation": "Create", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "same-bad", "namespace": "default"}, "data": {"a": 1}}}'}`},
	{"fields have defaults", `
  tick: tick
  env: {OP: '{"operation": "Create", "object": {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "same-service", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}}}'}
  expect: {after: [{kind: Service, metadata: {name: same-service}, spec: {type: null}}]}`},
	{"admission changes objects", `
  tick: tick
  env: {OP: '{"operation": "Create", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "same-pod", "namespace": "default"}, "spec": {"automountServiceAccountToken": false, "containers": [{"name": "a", "image": "a"}]}}}'}
  expect: {after: [{kind: Pod, metadata: {name: same-pod}, spec: {tolerations: null}}]}`},
	{"a namespace must exist", `
  tick: tick
  env: {OP: '{"operation": "Create", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "same-far", "namespace": "no-such-namespace"}}}'}`},
	{"server-side apply merges lists by keys", `
  tick: tick
  objects: service.yaml
  env: {OP: '{"operation": "Apply", "object": {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "same-service", "namespace": "default"}, "spec": {"ports": [{"name": "two", "port": 81}]}}}'}
  expect: {after: [{kind: Service, metadata: {name: same-service}, spec: {ports: [{name: two}]}}]}`},
	{"times are those of the cluster", `
  objects: default-objects.yaml
  event: {Deleting: cm/same-held}
  expect: {after: [{kind: ConfigMap, metadata: {name: same-held, deletionTimestamp: "2024-01-01T00:00:00Z"}}]}`},
	{"a kind must be served", `
  tick: tick
  env: {OP: '{"operation": "Create", "object": {"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "same-gizmo", "namespace": "default"}}}'}`},
}

func TestKnownDifferences(t *testing.T) {
	c := testenv.Shared(t)
	dir := t.TempDir()
	file := writeSame(t, dir, "unused", 0)
	text := "env: {OP: ''}\ncases:\n"
	for _, d := range differences {
		text += "- name: " + d.name + strings.TrimRight(d.keys, "\n") + "\n"
	}
	service := "{apiVersion: v1, kind: Service, metadata: {name: same-service}, spec: {ports: [{name: one, port: 80}]}}\n"
	for path, content := range map[string]string{file: text, filepath.Join(dir, "service.yaml"): service} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command(t, c.Kubeconfig, "test", file)
	out, _ := try(t, c.Kubeconfig, "test", "-o", "json", "--cluster", "--kube-config", c.Kubeconfig, file)
	var report struct {
		Cases []struct {
			Name     string
			Failures []struct{ Message string }
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Cases) != len(differences) {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, one := range report.Cases {
		if len(one.Failures) == 0 {
			t.Errorf("%s: there is no difference", one.Name)
		}
	}
	leavesNothing(t, c, "unused")
}

// TestClusterLeavesNothing ends cases in each way: what they have created is deleted, also with finalizers.
func TestClusterLeavesNothing(t *testing.T) {
	c := testenv.Shared(t)
	namespace := c.Namespace(t) + "-case"
	dir := t.TempDir()
	file := writeSame(t, dir, namespace, 0)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := func(text string) {
		if err := os.WriteFile(file, []byte("objects: "+namespace+"-objects.yaml\nenv: {OP: '"+strings.ReplaceAll(sameOperations[0], "NS", namespace)+"'}\ncases:\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"test", "--cluster", "--kube-config", c.Kubeconfig, file}

	cases("- {name: it fails, tick: tick, expect: {runs: 2}}\n")
	if out, status := try(t, c.Kubeconfig, args...); status != 1 || !strings.Contains(out, "runs is different") {
		t.Errorf("status %d\n%s", status, out)
	}
	leavesNothing(t, c, namespace)

	// Until a signal: the first run has created an object, the second one blocks.
	hook := strings.Replace(sameHook, "jq -c", `[ ! -e "$HOME/once" ] || echo begun >"`+pipe+`"; : >"$HOME/once"; jq -c`, 1)
	hook = strings.Replace(hook, "printf '%s'", `[ "$(jq -r '.[0].watchEvent' "$BINDING_CONTEXT_PATH")" != Deleted ] || sleep 600; printf '%s'`, 1)
	if err := os.WriteFile(filepath.Join(dir, "same.sh"), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	cases("- {name: it is interrupted, event: [{Modified: " + namespace + "-modified.yaml}, {Deleted: cm/same-one}]}\n")
	cmd := exec.Command(testenv.Binary(t), args...)
	cmd.Env = append(os.Environ(), "PATH="+testenv.Tools(t)+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(pipe); err != nil { // the second run has begun
		t.Fatal(err)
	}
	if made := c.Kubectl(t, "-n", namespace, "get", "configmap", "same-made", "-o", "name"); made == "" {
		t.Error("the first run has created nothing")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 1 {
		t.Errorf("status %d after a signal\n%s", status, out.String())
	}
	leavesNothing(t, c, namespace)

	// What is there already is not touched.
	c.Kubectl(t, "-n", "default", "create", "configmap", "same-one", "--from-literal=kept=yes")
	t.Cleanup(func() { c.Kubectl(t, "-n", "default", "delete", "configmap", "same-one") })
	if err := os.WriteFile(file, []byte("objects: default-objects.yaml\nenv: {OP: ''}\ncases: [{name: a name that is taken, tick: tick}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, status := try(t, c.Kubeconfig, args...)
	if status != 1 || !strings.Contains(text, "configmap/default/same-one exists in the cluster already") {
		t.Errorf("status %d\n%s", status, text)
	}
	if left := c.Kubectl(t, "-n", "default", "get", "configmap", "same-held", "--ignore-not-found"); left != "" {
		t.Errorf("it created objects: %s", left)
	}

	// The cluster must be named.
	if _, status := try(t, c.Kubeconfig, "test", "--cluster", file); status != 1 {
		t.Errorf("without --kube-config: status %d", status)
	}
}

// TestRunCluster runs a hook on objects of a cluster, which it does not change.
func TestRunCluster(t *testing.T) {
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	c.Kubectl(t, "-n", ns, "create", "configmap", "menu", "--from-literal=soup=leek")
	c.Kubectl(t, "-n", ns, "create", "secret", "generic", "token", "--from-literal=value=top-secret")
	dir := hooksDir(t, map[string]string{"menu.sh": `#!/bin/sh
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
			`"filterResult":{"soup":"leek"},"objects":null,"watchEvent":"Added"`, "-   soup: leek", "+   soup: tomato", "+   value: masked, changed", "+   type: ClusterIP",
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
	if now := c.Kubectl(t, "-n", ns, "get", "configmap/menu", "-o", "jsonpath={.data.soup}") + c.Kubectl(t, "-n", ns, "get", "service", "-o", "name"); now != "leek" {
		t.Errorf("the cluster has changed: %q", now)
	}
}

// TestRunClusterSet shows what a Sync changes in the set of the operator: it adopts, changes and prunes objects by a dry run.
func TestRunClusterSet(t *testing.T) {
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	dir := hooksDir(t, map[string]string{"set.sh": `#!/bin/sh
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
	for _, part := range []string{"ConfigMap/" + ns + "/changed:", `-   k: "1"`, `+   k: "2"`, "ConfigMap/" + ns + "/adopted:", "ConfigMap/" + ns + "/pruned:", "- kind: ConfigMap"} {
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
	if out := run("--cluster", "--startup", "--diff", "--instance", "other"); !strings.Contains(out, "the last one failed") || strings.Contains(out, "/changed:") || strings.Contains(out, "/pruned:") {
		t.Errorf("with another instance:\n%s", out)
	}
	if after := state(); after != before {
		t.Errorf("the cluster has changed:\n%s\n%s", before, after)
	}
}
