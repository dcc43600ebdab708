// Package ownwrites runs hooks that decide by their snapshots and write what they include, behind watches that are late.
package ownwrites

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// config is the configuration of all hooks: they watch objects to work for, and read snapshots of the objects that they write.
const config = `configVersion: v1
settings: {contextsPerRun: 1}
kubernetes:
- {name: wants, kind: ConfigMap, namespace: {nameSelector: {matchNames: [%[1]s]}}, labelSelector: {matchLabels: {role: want}},
   jqFilter: '"want-" + .metadata.name + "-" + .data.n', executeHookOnSynchronization: false, includeSnapshotsFrom: [own], queue: %[2]s}
- {name: own, kind: %[3]s, namespace: {nameSelector: {matchNames: [%[1]s]}}, %[4]s,
   jqFilter: '%[5]s', executeHookOnEvent: [], executeHookOnSynchronization: false}
`

// script is a hook. WANT is the object that it works for, and OWN are the filter results of the snapshot, one a line.
const script = `#!/bin/sh
if [ "$1" = --config ]; then cat <<'END'
%[1]sEND
exit; fi
results=$(tr '{},' '\n' <"$BINDING_CONTEXT_PATH" | sed -n 's/.*"filterResult": *"\([^"]*\)".*/\1/p')
WANT=$(echo "$results" | sed -n 's/^want-\(.*\)-[0-9]*$/\1/p')
OWN=$(echo "$results" | sed -n 's/^own-//p')
%[2]s
`

// behavior is a hook that goes wrong if a snapshot lacks what an earlier run has written.
type behavior struct {
	name string
	// kind, selector and filter are for the objects that it writes; queue is the queue of its runs.
	kind, selector, filter, queue string
	script                        string
	// prepare makes objects before, check compares what is there after so many runs for so many objects.
	prepare, check func(w *world)
	// many is the number of objects that the hook works for if they are more than in the other tests.
	many int
}

// world is a namespace with a running hook.
type world struct {
	*testing.T
	client        *kubernetes.Clientset
	cluster       *testenv.Cluster
	gateway       *testenv.Gateway
	op            *testenv.Operator
	namespace     string
	objects, runs int
}

func start(t *testing.T, b behavior, objects, runs int, trouble testenv.Trouble, between ...testenv.Interceptor) *world {
	cluster := testenv.Either(t)
	w := &world{T: t, cluster: cluster, namespace: cluster.Namespace(t), client: cluster.Clientset(t), objects: objects, runs: runs}
	if b.prepare != nil {
		b.prepare(w)
	}
	b.queue, b.kind = cmp.Or(b.queue, "main"), cmp.Or(b.kind, "ConfigMap")
	hooks := t.TempDir()
	text := fmt.Sprintf(script, fmt.Sprintf(config, w.namespace, b.queue, b.kind, b.selector, b.filter), b.script)
	testenv.Script(t, hooks, "hook.sh", text)
	gateway, kubeconfig := testenv.NewGateway(t, cluster.Kubeconfig, 1)
	gateway.Make(trouble)
	for _, do := range between {
		gateway.Intercept(do)
	}
	w.gateway = gateway
	w.op = testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: kubeconfig, Args: []string{"--namespace",
		w.namespace, "--log-level", "debug"},
		Env: []string{"NS=" + w.namespace}})
	w.op.UntilLog("Kubernetes bindings for hook are enabled successfully")
	return w
}

// work makes each object change until the hook has run so often, and waits for the runs.
func (w *world) work() (took time.Duration) {
	w.Helper()
	began := time.Now()
	for i := range w.objects {
		w.change(fmt.Sprint("w", i), w.runs/w.objects)
	}
	w.untilRuns(w.runs)
	return time.Since(began)
}

// change makes an object of the test, and changes it, so that the hook runs so often.
func (w *world) change(name string, times int) {
	w.Helper()
	for n := range times {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role": "want"}},
			Data: map[string]string{"n": strconv.Itoa(n)}}
		var err error
		if n == 0 {
			_, err = w.client.CoreV1().ConfigMaps(w.namespace).Create(context.Background(), o, metav1.CreateOptions{})
		} else {
			_, err = w.client.CoreV1().ConfigMaps(w.namespace).Update(context.Background(), o, metav1.UpdateOptions{})
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// untilRuns waits until the hook has run so often since its start.
func (w *world) untilRuns(n int) {
	w.Helper()
	w.op.UntilCount(n, "Hook executed successfully")
}

// oneForEach checks that the hook has created an object for each object of the test, and no other.
func oneForEach(w *world) {
	w.Helper()
	if n := len(w.owned("role=own")); n != w.objects {
		w.Errorf("%d objects were created for %d", n, w.objects)
	}
}

// owned are the ConfigMaps with a label.
func (w *world) owned(selector string) []corev1.ConfigMap {
	w.Helper()
	list, err := w.client.CoreV1().ConfigMaps(w.namespace).List(context.Background(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		w.Fatal(err)
	}
	return list.Items
}

// countedOwn checks that each run has added 1 to what the one before has written.
func countedOwn(w *world) {
	w.Helper()
	for _, o := range w.owned("role=own") {
		if o.Data["n"] != strconv.Itoa(w.runs) {
			w.Errorf("%s was counted up to %q in %d runs", o.Name, o.Data["n"], w.runs)
		}
	}
}

// create makes so many objects for the hook before it starts.
func create(n int, finalizers ...string) func(*world) {
	return func(w *world) {
		for i := range n {
			_, err := w.client.CoreV1().ConfigMaps(w.namespace).Create(context.Background(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("own", i), Labels: map[string]string{"role": "own"}, Finalizers: finalizers},
				Data:       map[string]string{"n": "0"},
			}, metav1.CreateOptions{})
			if err != nil {
				w.Fatal(err)
			}
		}
	}
}

// eachOnce checks that no two runs have taken the same object.
func eachOnce(w *world) {
	w.Helper()
	taken := map[string]int{}
	for _, r := range w.op.Records() {
		if name, ok := strings.CutPrefix(r.Fields["msg"], "takes "); ok {
			taken[name]++
		}
	}
	if len(taken) != w.runs {
		w.Errorf("%d objects were taken in %d runs: %v", len(taken), w.runs, taken)
	}
}

// take is a hook that takes the first object of the snapshot.
func take(operation string) string {
	return `name=$(echo "$OWN" | head -1); echo "takes $name"
cat >"$KUBERNETES_PATCH_PATH" <<END
{kind: ConfigMap, namespace: $NS, name: $name, ` + operation + `}
END`
}

const (
	labelled = `labelSelector: {matchLabels: {role: own}}`
	ofWhom   = `"own-" + .metadata.labels.of`
	byName   = `if .metadata.deletionTimestamp then "deleted" else "own-" + .metadata.name end`
	count1   = `"own-" + .data.n`
	inLanes  = "{name: lanes, key: object, concurrency: 8}"
)

// createIfAbsent is a hook that creates an object unless there is one.
const createIfAbsent = `echo "$OWN" | grep -qx "$WANT" && exit
cat >"$KUBERNETES_PATCH_PATH" <<END
{operation: Create, object: {apiVersion: v1, kind: ConfigMap, metadata:
  {generateName: own-, namespace: $NS, labels: {role: own, of: $WANT}}}}
END`

var behaviors = []behavior{
	{name: "create in a keyed queue", selector: labelled, filter: ofWhom, script: createIfAbsent, queue: inLanes,
		check: oneForEach, many: 10},
	{name: "count by a merge patch", selector: labelled, filter: count1, prepare: create(1), check: countedOwn,
		script: `cat >"$KUBERNETES_PATCH_PATH" <<END
{operation: MergePatch, kind: ConfigMap, namespace: $NS, name: own0, mergePatch: {data: {n: '$((OWN + 1))'}}}
END`},
	{name: "count by CreateOrUpdate", selector: labelled, filter: count1, prepare: create(1), check: countedOwn,
		script: `cat >"$KUBERNETES_PATCH_PATH" <<END
{operation: CreateOrUpdate, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: own0, namespace: $NS, labels: {role: own}},
  data: {n: '$((OWN + 1))'}}}
END`},
	{
		name: "count by a condition", kind: "PersistentVolumeClaim", selector: labelled,
		filter: `"own-" + ((.status.conditions // [])[0].message // "0")`,
		prepare: func(w *world) {
			w.cluster.KubectlInput(w.T, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: own0, labels: {role: own}},
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, "-n", w.namespace, "create", "-f", "-")
		},
		script: `cat >"$KUBERNETES_PATCH_PATH" <<END
{operation: Condition, apiVersion: v1, kind: PersistentVolumeClaim, namespace: $NS, name: own0, type: Counted, status: "True",
  reason: Counted, message: "$((OWN + 1))"}
END`,
		check: func(w *world) {
			is := w.cluster.Kubectl(w.T, "-n", w.namespace, "get", "pvc", "own0", "-o", "jsonpath={.status.conditions[0].message}")
			if is != strconv.Itoa(w.runs) {
				w.Errorf("%q was counted in %d runs", is, w.runs)
			}
		},
	},
	{name: "count by Sync", selector: labelled, filter: count1, check: countedOwn, script: `cat >"$KUBERNETES_PATCH_PATH" <<END
{operation: Sync, set: counter, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: own0, namespace: $NS, labels: {role: own}},
  data: {n: '$((OWN + 1))'}}]}
END`},
	{name: "delete", selector: labelled, filter: byName, prepare: create(10), check: eachOnce, script: take("operation: DeleteInBackground")},
	{name: "delete, and wait for the end", selector: labelled, filter: byName, prepare: create(10), check: eachOnce,
		script: take("operation: Delete")},
	{name: "delete with a finalizer", selector: labelled, filter: byName, prepare: create(10, "example.com/kept"), check: eachOnce,
		script: take("operation: DeleteInBackground")},
}

// No run decides by a snapshot that lacks what an earlier one has written, although each watch is 0.2 s late.
func TestLateWatch(t *testing.T) {
	for _, b := range behaviors {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			objects, runs := 5, 10
			if b.many > 0 {
				objects, runs = b.many, 100
			}
			if b.many > 0 && test.Long() {
				objects, runs = 40, 1000
			}
			w := start(t, b, objects, runs, testenv.Trouble{WatchDelay: 200 * time.Millisecond})
			t.Log(w.work())
			b.check(w)
		})
	}
}
