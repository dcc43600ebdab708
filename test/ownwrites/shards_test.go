package ownwrites

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// divided is a hook whose objects two replicas share.
const divided = `#!/bin/sh
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
settings: {contextsPerRun: 1, shardBy: %[1]s}
kubernetes:
- {name: wants, kind: ConfigMap, namespace: {nameSelector: {matchNames: [%[2]s]}}, labelSelector: {matchLabels: {role: want}},
   jqFilter: .data.n, executeHookOnSynchronization: false, includeSnapshotsFrom: [wants, own],
   queue: {name: lanes, key: object, concurrency: 8}}
- {name: own, kind: ConfigMap, namespace: {nameSelector: {matchNames: [%[2]s]}}, labelSelector: {matchLabels: {role: own}},
   executeHookOnEvent: [], executeHookOnSynchronization: false}
END
exit; fi
jq -c '.[0] | .object as $o | ($o.metadata | {namespace, name}) as $at | %[3]s' "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
`

// counting adds 1 to what the snapshot has of the object.
const counting = `(.snapshots.wants[].object | select((.metadata | {namespace, name}) == $at) | {operation: "MergePatch", kind,
  namespace: .metadata.namespace, name: .metadata.name, mergePatch: {data: {count: (.data.count // "0" | tonumber + 1 | tostring)}}})`

// creating makes an object unless the snapshot has one.
const creating = `(select(any(.snapshots.own[].object; .metadata.namespace == $at.namespace and .metadata.labels.of == $at.name) | not)
  | {operation: "Create", object: {apiVersion: "v1", kind: "ConfigMap", metadata: {generateName: "own-", namespace: $at.namespace,
     labels: {role: "own", of: $at.name}}}})`

// changes is the number of changes of each object, and of the runs for it.
const changes = 4

// Replicas that share objects wait for what they have written themselves, behind watches that are late.
func TestShards(t *testing.T) {
	for _, d := range []struct{ by, program string }{
		{"object", counting}, // what a hook creates may be in another shard
		{"namespace", creating + "," + counting},
	} {
		t.Run(d.by, func(t *testing.T) {
			t.Parallel()
			cluster := testenv.Shared(t)
			var spaces []string
			for range 3 {
				spaces = append(spaces, cluster.Namespace(t))
			}
			hooks := t.TempDir()
			text := fmt.Sprintf(divided, d.by, strings.Join(spaces, ", "), d.program)
			testenv.Script(t, hooks, "hook.sh", text)
			gateway, kubeconfig := testenv.NewGateway(t, cluster.Kubeconfig, 1)
			gateway.Make(testenv.Trouble{WatchDelay: 200 * time.Millisecond})
			var replicas []*testenv.Operator
			for range 2 {
				replicas = append(replicas, testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: kubeconfig, Args: []string{
					"--namespace", spaces[0], "--shards", "2", "--leader-election-lease-duration", "3s", "--kubernetes-events=false"}}))
			}
			for _, op := range replicas {
				op.UntilCount(2, "Unlock kubernetes.Event tasks") // both bindings deliver
			}
			client := cluster.Clientset(t)
			const objects = 5 // in each namespace: that all 15 are in one shard happens once in 16,384 runs of this test
			for _, space := range spaces {
				w := &world{T: t, client: client, namespace: space}
				for i := range objects {
					w.change(fmt.Sprint("w", i), changes)
				}
			}
			for _, space := range spaces {
				cluster.Kubectl(t, "-n", space, "wait", "configmap", "-l", "role=want", fmt.Sprint("--for=jsonpath={.data.count}=", changes),
					"--timeout=60s")
				w := &world{T: t, client: client, namespace: space, objects: objects, runs: changes}
				counted(w, "role=want", "count")
				if d.by == "namespace" {
					oneForEach(w)
				}
			}
			for i, op := range replicas {
				n := op.Count("Hook executed successfully")
				t.Logf("%d runs of replica %d", n, i)
				if d.by == "object" && n == 0 {
					t.Errorf("replica %d has run for no object", i)
				}
			}
		})
	}
}
