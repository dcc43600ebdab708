package ownwrites

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// loop is a hook that changes the object that it watches, each tenth time with an effect. It prints which change of the test it has
// received.
const loop = `#!/bin/sh
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
settings: {contextsPerRun: 1}
kubernetes: [{name: shared, kind: ConfigMap, nameSelector: {matchNames: [shared]}, namespace: {nameSelector: {matchNames: [%[1]s]}},
  executeHookOnSynchronization: false, ownChanges: ignore}]
END
exit; fi
N=$(tr '{},' '\n' <"$BINDING_CONTEXT_PATH" | sed -n 's/^ *"n": *"\([0-9]*\)".*/\1/p' | head -1)
TENS=$((N / 10))
echo "received $N"
cat >"$KUBERNETES_PATCH_PATH" <<END
%[2]s
END
`

const manifest = `{apiVersion: v1, kind: ConfigMap, metadata: {name: shared, namespace: $NS}, data: {tens: '$TENS'}}`

var operations = []struct{ name, text string }{
	{"MergePatch", `{operation: MergePatch, kind: ConfigMap, namespace: $NS, name: shared, mergePatch: {data: {tens: '$TENS'}}}`},
	{"JSONPatch", `{operation: JSONPatch, kind: ConfigMap, namespace: $NS, name: shared,
  jsonPatch: [{op: add, path: /data/tens, value: '$TENS'}]}`},
	{"JQPatch", `{operation: JQPatch, kind: ConfigMap, namespace: $NS, name: shared, jqFilter: '.data.tens = "$TENS"'}`},
	{"Apply", `{operation: Apply, object: ` + manifest + `}`},
	{"Sync", `{operation: Sync, set: shared, force: true, objects: [` + manifest + `]}`},
}

// With ownChanges: ignore, a hook is not woken by its own change, and receives each change of another client, while both write.
func TestOwnChanges(t *testing.T) {
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			w := startLoop(t, o.text)
			calm, hasty := 3, 30
			if test.Long() {
				calm, hasty = 30, 500
			}
			for n := 1; n <= calm; n++ {
				w.set(n * 10) // each with an effect of the hook
				w.untilReceived(n * 10)
				w.untilRuns(n)
			}
			time.Sleep(200 * time.Millisecond) // an event of an own change would have come by now
			if got := w.received(); len(got) != calm {
				t.Errorf("the hook has received %v for %d changes", got, calm)
			}
			from := (calm + 1) * 10
			for n := from; n < from+hasty; n++ {
				w.set(n)
			}
			w.set(9999)
			w.untilReceived(9999)
			got := map[string]bool{}
			for _, n := range w.received() {
				got[n] = true
			}
			for n := from; n < from+hasty; n++ {
				if !got[fmt.Sprint(n)] {
					t.Errorf("the hook has not received the change to %d", n)
				}
			}
			t.Logf("%d events for %d changes", len(w.received()), calm+hasty+1)
		})
	}
}

func startLoop(t *testing.T, operation string) *world {
	cluster := testenv.Either(t)
	w := &world{T: t, cluster: cluster, namespace: cluster.Namespace(t), client: cluster.Clientset(t)}
	shared := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Data: map[string]string{"n": "0"}}
	if _, err := w.client.CoreV1().ConfigMaps(w.namespace).Create(context.Background(), shared, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hooks := t.TempDir()
	testenv.Script(t, hooks, "hook.sh", fmt.Sprintf(loop, w.namespace, operation))
	w.op = testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.Kubeconfig, Args: []string{"--namespace",
		w.namespace},
		Env: []string{"NS=" + w.namespace}})
	w.op.UntilLog("Kubernetes bindings for hook are enabled successfully")
	return w
}

// set is the change of another client.
func (w *world) set(n int) {
	w.Helper()
	patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n)
	_, err := w.client.CoreV1().ConfigMaps(w.namespace).Patch(context.Background(), "shared", types.MergePatchType, patch,
		metav1.PatchOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

// received are the changes that the hook has received, in order.
func (w *world) received() (all []string) {
	for _, r := range w.op.Records() {
		if n, ok := strings.CutPrefix(r.Fields["msg"], "received "); ok {
			all = append(all, n)
		}
	}
	return all
}

func (w *world) untilReceived(n int) {
	w.Helper()
	w.op.UntilLog(fmt.Sprint("received ", n))
}
