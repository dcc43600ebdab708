package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// simple starts an operator with hooks in sh, by name.
func simple(t *testing.T, cluster *testenv.Cluster, hooks map[string]string, args ...string) *watched {
	t.Helper()
	dir := t.TempDir()
	for name, text := range hooks {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return startWatched(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig, Args: args})
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

// A filter that never ends for one object delays the others up to its time limit, and no longer. The hook receives the
// object, without a result.
func TestFilterThatLoops(t *testing.T) {
	wanted(t, "filter-that-loops") // package jq tests the limits of filters
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	client := clientOf(t, cluster)
	op := simple(t, cluster, map[string]string{"hook.sh": hookText(fmt.Sprintf(`
configVersion: v1
kubernetes:
- kind: ConfigMap
  apiVersion: v1
  labelSelector: {matchLabels: {odd: ""}}
  namespace: {nameSelector: {matchNames: [%s]}}
  keepFullObjectsInMemory: false
  jqFilter: 'if .data.do == "loop" then def f: f; f elif .data.do == "explode" then reduce range(60) as $i ([1]; [., .]) else .data.do end'`, namespace),
		`printf 'run '; jq -c 'map(.filterResult)' $BINDING_CONTEXT_PATH`)})
	op.UntilLog("Unlock kubernetes.Event tasks")
	op.mayHold()
	for i, do := range []string{"loop", "explode", "nothing"} {
		_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", i), Labels: map[string]string{"odd": ""}}, Data: map[string]string{"do": do},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	looped := op.UntilLog("jqFilter failed", "name", "map-0")
	if want := "the filter takes longer than 5s: simplify it"; looped.Fields["error"] != want {
		t.Errorf("error %q, want %q", looped.Fields["error"], want)
	}
	exploded := op.UntilLog("jqFilter failed", "name", "map-1")
	if want := "the result is more than 67108864 bytes long: select less"; exploded.Fields["error"] != want {
		t.Errorf("error %q, want %q", exploded.Fields["error"], want)
	}
	var received strings.Builder
	op.Until("three results", func(records []testenv.Record) bool {
		received.Reset()
		for _, r := range records {
			received.WriteString(strings.Trim(strings.TrimPrefix(r.Fields["msg"], "run "), "[]") + ",")
		}
		return strings.Contains(received.String(), `"nothing"`)
	})
	if strings.Count(received.String(), "null") < 2+1 { // one null is that of the Synchronization
		t.Errorf("the hook received %s", received.String())
	}
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
	op.mayHold()
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

// A hooks directory full of things that are no hooks. One hook among them is found and runs.
func TestStrangeFiles(t *testing.T) {
	wanted(t, "strange-files")
	together(t)
	cluster := testenv.Shared(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(in("hook.sh"), []byte(hookText("{configVersion: v1, onStartup: 1}", "echo ran")), 0o755))
	must(os.WriteFile(in("README.md"), []byte("text"), 0o644))
	must(os.WriteFile(in(".hidden.sh"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	must(os.WriteFile(in("data.yaml"), []byte("a: b"), 0o755))
	must(os.WriteFile(in("data.json"), []byte("{}"), 0o755))
	must(os.WriteFile(in("no-read"), []byte("x"), 0o000))
	must(syscall.Mkfifo(in("pipe.sh"), 0o755))
	must(os.Symlink("/nowhere", in("broken-link.sh")))
	must(os.Symlink(dir, in("loop")))
	must(os.MkdirAll(in(".git/hooks"), 0o755))
	must(os.WriteFile(in(".git/hooks/pre-commit"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	must(os.MkdirAll(in(strings.Repeat("deep/", 60)), 0o755))
	must(os.MkdirAll(in("lib"), 0o755))
	must(os.WriteFile(in("lib/common.sh"), []byte("exit 1"), 0o755))
	must(os.WriteFile(in("new\nline"), []byte("x"), 0o644))
	must(os.WriteFile(in("\xff\xfe"), []byte("x"), 0o644))
	op := startWatched(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig})
	started := time.Now()
	op.UntilLog("ran")
	op.mayHold()
	if took := time.Since(started); took > test.Patience/2 {
		t.Errorf("it took %s", took)
	}
	for _, r := range op.Records() {
		if r.Has("Load config") && r.Fields["hook"] != "hook.sh" {
			t.Errorf("%q was taken for a hook", r.Fields["hook"])
		}
	}
}
