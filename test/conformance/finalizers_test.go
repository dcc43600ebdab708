package conformance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// A hook creates a file for each object, and removes it when the object is deleted. The operator is killed at random moments, between the
// record, the patch, the run and the removal of the finalizer. In the end there are files for exactly the objects that exist, and each of
// these has the finalizer.
func TestFinalizersSurviveKills(t *testing.T) {
	c := testenv.Either(t)
	kills := 10
	if test.Long() {
		kills = 200
	}
	namespace, hooks, files := c.Namespace(t), t.TempDir(), t.TempDir()
	finalizer := namespace + ".example.com/files"
	script := fmt.Sprintf(`#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "kubernetes": [{"name": "cm", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"managed": "yes"}},
    "namespace": {"nameSelector": {"matchNames": [%q]}}, "finalizer": %q, "queue": {"name": "files", "key": "object", "concurrency": 4}}]}'
  exit
fi
set -e
jq -r '.[] | (.objects // [.])[] |
  (.watchEvent // "Initial") + " " + .object.metadata.name + " " + (.object.metadata.deletionTimestamp // "")' "$BINDING_CONTEXT_PATH" |
while read -r event name terminating; do
  case "$event$terminating" in
    Deleting*) rm -f "%[3]s/$name" ;;
    Initial | Added | Modified) : > "%[3]s/$name" ;;
  esac
done
`, namespace, finalizer, files)
	testenv.Script(t, hooks, "files.sh", script)
	kubeconfig := c.KubeconfigFor(t, c.Kubeconfig, namespace)
	start := func(status int) *testenv.Operator {
		return testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: kubeconfig, Status: status,
			Args: []string{"--retry-min-delay=100ms", "--retry-max-delay=1s"}, Env: []string{"PATH=" + test.Tools(t) + ":" + os.Getenv("PATH")}})
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	live := map[string]bool{}
	var deleted []string
	for kill := range kills {
		op := start(-1)
		op.UntilLog("base http server started")
		var manifests []string
		for i := range 4 {
			name := fmt.Sprintf("o-%d-%d", kill, i)
			live[name] = true
			manifests = append(manifests,
				fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q, "labels": {"managed": "yes"}}}`, name))
		}
		c.KubectlInput(t, strings.Join(manifests, "\n"), "-n", namespace, "create", "-f", "-")
		for name := range live {
			if random.IntN(3) == 0 {
				delete(live, name)
				deleted = append(deleted, "configmap/"+name)
				c.Kubectl(t, "-n", namespace, "delete", "configmap", name, "--wait=false")
			}
		}
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond) // the moment of the kill is the test
		op.Signal(syscall.SIGKILL)
		op.Wait()
	}
	op := start(0)
	c.Kubectl(t, "-n", namespace, "create", "configmap", "last")
	c.Kubectl(t, "-n", namespace, "label", "configmap", "last", "managed=yes")
	c.Kubectl(t, "-n", namespace, "wait", "configmap/last", "--for=jsonpath={.metadata.finalizers[0]}="+finalizer, "--timeout=60s")
	live["last"] = true
	err := op.TryUntil(test.Patience, func([]testenv.Record) bool { return slices.Equal(names(t, files), sorted(live)) })
	if err != nil {
		t.Fatalf("%v\nfiles   %v\nobjects %v\n%s", err, names(t, files), sorted(live), op.Log())
	}
	if len(deleted) > 0 { // the file goes before the finalizer
		c.Kubectl(t, append([]string{"-n", namespace, "wait", "--for=delete", "--timeout=60s"}, deleted...)...)
	}
	const show = `{range .items[*]}{.metadata.name} {.metadata.finalizers[0]}{"\n"}{end}`
	for name := range live {
		c.Kubectl(t, "-n", namespace, "wait", "configmap/"+name, "--for=jsonpath={.metadata.finalizers[0]}="+finalizer, "--timeout=60s")
	}
	got := c.Kubectl(t, "-n", namespace, "get", "configmaps", "-l", "managed=yes", "-o", "jsonpath="+show)
	var want strings.Builder
	for _, name := range sorted(live) {
		fmt.Fprintf(&want, "%s %s\n", name, finalizer)
	}
	if strings.TrimSpace(got) != strings.TrimSpace(want.String()) {
		t.Errorf("the objects are\n%s\nwant\n%s", got, want.String())
	}
	c.Kubectl(t, "-n", namespace, "delete", "configmaps", "-l", "managed=yes", "--timeout=60s")
	if left := names(t, files); len(left) > 0 {
		t.Errorf("files of objects that are gone: %v", left)
	}
}

func names(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func sorted(set map[string]bool) (names []string) {
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
