package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// fault is something that goes wrong while objects change.
type fault struct {
	name string
	// controlPlane marks faults during which nothing works.
	controlPlane bool
	// widgets is set when there must be custom resources.
	widgets bool
	// strict marks faults that break no watch: not one change may be missed.
	strict bool
	// lasts is how long it lasts; 0 means a few seconds.
	lasts      time.Duration
	begin, end func(*world)
	// prepare changes the world before the operator starts; nil for nothing.
	prepare func(*world)
	// touches is what only one of two faults can do something to.
	touches part
	// met returns what is missing for the operator to have met the fault; nil for a fault that it cannot avoid.
	met func(*world) string
}

// part is a part of the world.
type part int

const (
	_ part = iota
	// anOperator is one of which there may be two then.
	anOperator
	aPairOfOperators
	theDisk
	// timeLimits are the time limits of hooks.
	timeLimits
)

func nothing(*world) {}

// faults are all faults that happen outside of hooks; faults of hooks are in misbehave_test.go, of two operators in
// replicas_test.go. Clocks that jump are tested in package schedule, with a clock that is handed in.
var faults = []fault{
	{name: "apiserver-killed", controlPlane: true, begin: func(w *world) { w.cluster.Kill(w.t, "kube-apiserver") }, end: restartAPIServer},
	{name: "apiserver-paused", controlPlane: true, lasts: 40 * time.Second,
		begin: func(w *world) { w.cluster.Pause(w.t, "kube-apiserver") },
		end:   func(w *world) { w.cluster.Continue(w.t, "kube-apiserver") }},
	{name: "history-compacted", controlPlane: true, met: wasExpired, begin: func(w *world) {
		// A reflector without a response relists, and so does one whose watch breaks in the first second. After a 429
		// it continues the watch from its version, and gets 410 because the changes since then are compacted.
		time.Sleep(1500 * time.Millisecond)
		w.gateway.Make(testenv.Trouble{Status: 429, Share: 1})
		w.gateway.Cut()
		w.gateway.WatchRefused(20 * time.Second) // beside another fault there may be none
		w.cluster.Kill(w.t, "kube-apiserver")
		w.cluster.Compact(w.t)
	}, end: func(w *world) {
		restartAPIServer(w)
		peace(w)
	}},
	{name: "etcd-paused", controlPlane: true, lasts: 15 * time.Second,
		begin: func(w *world) { w.cluster.Pause(w.t, "etcd") },
		end:   func(w *world) { w.cluster.Continue(w.t, "etcd") }},
	{name: "slow", strict: true, begin: trouble(testenv.Trouble{Delay: 150 * time.Millisecond}), end: peace},
	{name: "cut-in-the-middle", lasts: 5 * time.Second, begin: trouble(testenv.Trouble{CutAfter: 20_000}), end: peaceAfterBroken,
		met: wasBroken},
	{name: "too-many-requests", begin: refuse(429), end: peace, met: wasRefused},
	{name: "internal-errors", begin: refuse(500), end: peace, met: wasRefused},
	{name: "token-revoked", lasts: 12 * time.Second, end: nothing, begin: func(w *world) {
		old := fmt.Sprint("token-", w.tokens)
		w.newToken()
		w.must(w.client.CoreV1().Secrets(w.mirrors).Delete(context.Background(), old, metav1.DeleteOptions{}))
		w.gateway.Cut()
	}},
	{name: "permission-withdrawn", begin: func(w *world) {
		w.allow(nil)
		w.cluster.UntilDenied(w.t, "system:serviceaccount:"+w.mirrors+":operator", w.namespace, "list", "configmaps")
		w.gateway.Cut()
		if !w.down {
			w.op.UntilLog("Watch Failed")
		}
	}, end: func(w *world) { w.allow(w.rules()) }},
	{name: "labels-flap", strict: true, begin: func(w *world) {
		w.flapped = true
		for range 5 {
			w.label(w.second, false)
			time.Sleep(time.Duration(w.random.IntN(400)) * time.Millisecond)
			w.label(w.second, true)
			time.Sleep(time.Duration(w.random.IntN(400)) * time.Millisecond)
		}
	}, end: nothing},
	{name: "crd-replaced", widgets: true, begin: func(w *world) {
		w.writer.leave("Widget", w.removeCRD)
	}, end: func(w *world) {
		w.makeCRD("v1", "v2")
		w.writer.enter(w.widgets("v2"))
	}},
	{name: "operator-killed", touches: anOperator, strict: true, end: nothing, begin: func(w *world) {
		for range 4 { // while it starts, lists, runs hooks: wherever it is
			w.kill()
			w.launch()
			time.Sleep(time.Duration(w.random.IntN(1500)) * time.Millisecond)
		}
	}},
	{name: "operator-stopped", touches: anOperator, strict: true, begin: func(w *world) {
		w.op.Signal(terminate)
		w.op.Wait()
		w.down = true
	}, end: func(w *world) {
		if w.down { // another fault may have started it
			w.launch()
		}
	}},
}

func restartAPIServer(w *world) { w.cluster.Restart(w.t, "kube-apiserver") }

func trouble(t testenv.Trouble) func(*world) { return func(w *world) { w.gateway.Make(t) } }

func refuse(status int) func(*world) {
	return func(w *world) {
		w.gateway.Make(testenv.Trouble{Status: status, Share: 0.7})
		w.gateway.Cut()
	}
}

func peace(w *world) { w.gateway.Make(testenv.Trouble{}) }

func peaceAfterBroken(w *world) {
	w.gateway.AnswerBroken(20 * time.Second) // beside another fault there may be none
	peace(w)
}

func wasRefused(w *world) string {
	if n, _ := w.gateway.Made(); n == 0 {
		return "no request was refused"
	}
	return ""
}

func wasBroken(w *world) string {
	if _, n := w.gateway.Made(); n == 0 {
		return "no answer was broken off"
	}
	return ""
}

// wasExpired checks that the API server has answered 410 Gone.
func wasExpired(w *world) string {
	const expired = `shell_operator_kubernetes_client_watch_errors_total{error_type="expired"}`
	if metrics := w.op.Page("/metrics"); !strings.Contains(metrics, expired) {
		return "no watch received the error that its history is gone"
	}
	return ""
}

func (w *world) allow(rules []rbacv1.PolicyRule) {
	w.t.Helper()
	role, err := w.client.RbacV1().ClusterRoles().Get(context.Background(), w.namespace, metav1.GetOptions{})
	w.must(err)
	role.Rules = rules
	_, err = w.client.RbacV1().ClusterRoles().Update(context.Background(), role, metav1.UpdateOptions{})
	w.must(err)
}

// label gives a namespace the label by which the hook "labelled" selects, or takes it away.
func (w *world) label(namespace string, on bool) {
	w.t.Helper()
	var value any
	if on {
		value = w.namespace
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{"chaos": value}}})
	w.must(err)
	_, err = w.client.CoreV1().Namespaces().Patch(context.Background(), namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	w.must(err)
}

// group is the API group of the case's own custom resource.
func (w *world) group() string { return w.namespace + ".example.com" }

func (w *world) widgets(version string) place {
	return place{schema.GroupVersionResource{Group: w.group(), Version: version, Resource: "widgets"}, "Widget", w.namespace}
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// makeCRD makes the case's custom resource, with the last version stored, and returns when it is served.
func (w *world) makeCRD(versions ...string) {
	w.t.Helper()
	var list []any
	for i, v := range versions {
		list = append(list, map[string]any{
			"name": v, "served": true, "storage": i == len(versions)-1,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + w.group()},
		"spec": map[string]any{
			"group": w.group(), "scope": "Namespaced", "versions": list,
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
		},
	}}
	_, err := w.dynamic.Resource(definitions).Create(context.Background(), crd, metav1.CreateOptions{})
	w.must(err)
	w.cluster.Kubectl(w.t, "wait", "--for=condition=Established", "crd/"+crd.GetName(), "--timeout=60s")
	w.t.Cleanup(func() {
		_ = w.dynamic.Resource(definitions).Delete(context.Background(), crd.GetName(), metav1.DeleteOptions{})
	})
	// Established does not mean that each request is answered: the API server's router comes a moment later.
	for _, v := range versions {
		for {
			_, err := w.dynamic.Resource(w.widgets(v).resource).Namespace(w.namespace).List(context.Background(), metav1.ListOptions{})
			if err == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (w *world) removeCRD() {
	w.t.Helper()
	w.must(w.dynamic.Resource(definitions).Delete(context.Background(), "widgets."+w.group(), metav1.DeleteOptions{}))
	w.cluster.Kubectl(w.t, "wait", "--for=delete", "crd/widgets."+w.group(), "--timeout=60s")
}
