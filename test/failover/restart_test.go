package failover

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// lanesHook fails for objects whose names begin with "parked", which have one attempt, and "delayed", until it is repaired. It prints the
// objects of each run that succeeds.
const lanesHook = `#!/bin/sh
if [ "$1" = --config ]; then cat <<END; exit; fi
configVersion: v1
settings: {retry: {minDelay: 1h, maxDelay: 1h}}
kubernetes:
- name: lists
  kind: ConfigMap
  labelSelector: {matchLabels: {of: lists}}
  namespace: {nameSelector: {matchNames: [$NS]}}
  queue: {name: lists, key: object, concurrency: 4}
  retry: {limit: 1}
- name: adds
  kind: ConfigMap
  labelSelector: {matchLabels: {of: adds}}
  namespace: {nameSelector: {matchNames: [$NS]}}
  queue: {name: adds, key: namespace, concurrency: 4}
  initialObjects: added
END
names=$(jq -r '.[] | .binding as $b | (.objects // [.])[] | "\($b)/\(.object.metadata.name)"' "$BINDING_CONTEXT_PATH")
if [ ! -e $WORK/repaired ]; then case $names in *parked*|*delayed*) echo "fails at $names"; exit 1 ;; esac; fi
for name in $names; do echo "delivered $name"; done
`

// What an operator had parked and delayed when it was killed, its successor delivers again: the Synchronization and the Added events have
// every object.
func TestKillWithParkedAndDelayedLanes(t *testing.T) {
	kills := 5
	if test.Long() {
		kills = 100
	}
	cluster := testenv.Shared(t)
	for kill := range kills {
		t.Run(fmt.Sprint(kill), func(t *testing.T) { killOnce(t, cluster, kill) })
	}
}

func killOnce(t *testing.T, cluster *testenv.Cluster, kill int) {
	namespace, hooks, work := cluster.Namespace(t), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(hooks, "hook"), []byte(lanesHook), 0o755); err != nil {
		t.Fatal(err)
	}
	start := func() *testenv.Operator {
		return testenv.Start(t, testenv.OperatorOptions{
			HooksDir: hooks, Kubeconfig: cluster.Kubeconfig,
			Env: []string{"WORK=" + work, "NS=" + namespace, "PATH=" + test.Tools(t) + ":" + os.Getenv("PATH")},
		})
	}
	op := start()
	op.UntilLog("Hook executed successfully")
	var objects strings.Builder
	want := map[string]bool{}
	for _, name := range []string{"lists/parked-a", "lists/parked-b", "lists/calm", "adds/delayed-a", "adds/delayed-b"} {
		of, name, _ := strings.Cut(name, "/")
		fmt.Fprintf(&objects, "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s, labels: {of: %s}}}\n---\n", name,
			namespace, of)
		want["delivered "+of+"/"+name] = true
	}
	cluster.KubectlInput(t, objects.String(), "apply", "-f", "-")
	// Killed at different moments: after the first failure, or after all of them.
	op.Until("failures", func(records []testenv.Record) bool {
		n := 0
		for _, r := range records {
			if strings.HasPrefix(r.Fields["msg"], "fails at") {
				n++
			}
		}
		return n >= 1+kill%3
	})
	op.Expect(-1)
	op.Signal(syscall.SIGKILL)
	op.Wait()
	if err := os.WriteFile(filepath.Join(work, "repaired"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	op = start()
	op.Until("every object "+strings.Join(slices.Sorted(maps.Keys(want)), ", "), func(records []testenv.Record) bool {
		missing := maps.Clone(want)
		for _, r := range records {
			delete(missing, r.Fields["msg"])
		}
		return len(missing) == 0
	})
}
