package examples

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestAgentRbac(t *testing.T) {
	t.Parallel()
	e := prepareOn(t, "agent-rbac", testenv.Own(t)) // Pods of other tests have the same annotation
	const remove = "delete clusterrole,clusterrolebinding agent-exec --ignore-not-found"
	e.kubectl(strings.Fields(remove)...)
	t.Cleanup(func() { e.kubectl(strings.Fields(remove)...) })

	// Five namespaces with two agents each, and three that get nothing: one with other Pods, one whose agent is being
	// deleted already, one whose agent will be.
	var agents []string
	for range 5 {
		agents = append(agents, e.podNamespace())
	}
	others, leaving, left := e.podNamespace(), e.podNamespace(), e.podNamespace()
	e.createPods(pod(leaving, "agent", `"true"`, "example.com/test"))
	t.Cleanup(func() { e.release(leaving) })
	e.kubectl("-n", leaving, "delete", "pod", "agent", "--wait=false")

	e.start()
	e.operator.UntilLog("Unlock kubernetes.Event tasks")
	if found := e.kubectl("get", "clusterrole,clusterrolebinding", "agent-exec", "--ignore-not-found"); found != "" {
		t.Errorf("granted without a request: %s", found)
	}
	var pods strings.Builder
	for _, ns := range agents {
		pods.WriteString(pod(ns, "one", `"true"`) + pod(ns, "two", `"true"`) + pod(ns, "other", `"false"`))
	}
	e.createPods(pods.String() + pod(others, "one", `"false"`) + pod(others, "two", `"yes"`))
	all := func() bool { return e.exists() && slices.Equal(e.subjects(), slices.Sorted(slices.Values(agents))) }
	e.until("five namespaces, each once", all)
	if want := `[{"apiGroups":[""],"resources":["pods/exec"],"verbs":["create"]}]`; e.rules() != want {
		t.Errorf("the rules are %s, not %s", e.rules(), want)
	}
	// The API server watches bindings, so a permission is effective some time after it is granted.
	for deadline := time.Now().Add(test.Patience); e.mayExec(agents[0]) != "true"; {
		if time.Now().After(deadline) {
			t.Fatalf("an agent of %s may not create pods/exec", agents[0])
		}
	}
	if got := e.mayExec(others); got != "false" {
		t.Errorf("may an agent of %s create pods/exec? %s, not false", others, got)
	}

	// Changes of a Pod that is being deleted have no effect, not even the annotation itself. The next Pod shows that the
	// hook has seen them.
	e.createPods(pod(left, "agent", `"false"`, "example.com/test"))
	t.Cleanup(func() { e.release(left) })
	e.kubectl("-n", left, "delete", "pod", "agent", "--wait=false")
	e.kubectl("-n", left, "annotate", "pod", "agent", "--overwrite", "example.com/enable=true")
	e.kubectl("-n", others, "annotate", "pod", "one", "--overwrite", "example.com/enable=true")
	agents = append(agents, others)
	e.until("the sixth namespace, and no other", all)

	// Foreign subjects stay, drift is corrected.
	e.kubectl("patch", "clusterrolebinding", "agent-exec", "--type=json", "-p",
		`[{"op":"remove","path":"/subjects/0"},{"op":"add","path":"/subjects/-","value":{"kind":"ServiceAccount","name":"default",`+
			`"namespace":"by-hand"}}]`)
	agents = append(agents, "by-hand")
	e.until("the removed subject again", all)
	agents = agents[:len(agents)-1]
	e.kubectl("patch", "clusterrole", "agent-exec", "--type=merge", "-p",
		`{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`)
	e.until("the rules again", func() bool { return strings.Contains(e.rules(), "pods/exec") })
	e.kubectl("delete", "clusterrole,clusterrolebinding", "agent-exec")
	e.until("all again", all)
	if n := e.failures(); n > 0 {
		t.Errorf("%d runs have failed", n)
	}

	// A second start finds nothing to do: its one run, in which everything comes together, writes nothing.
	e.stop()
	before := e.versions()
	e.start()
	e.operator.UntilLog("Hook executed successfully")
	if after := e.versions(); after != before {
		t.Errorf("the second start has written something: %s, before %s", after, before)
	}

	// Killed half-way: first with nothing there, then with half of it there and one namespace more.
	e.stop()
	e.kubectl(strings.Fields(remove)...)
	e.start(killedOnce(t, "jq", "cat"), retryMinDelay, retryMaxDelay)
	e.until("all again, after the hook was killed", all)
	e.stop()
	e.kubectl("delete", "clusterrolebinding", "agent-exec")
	agents = append(agents, e.podNamespace())
	e.createPods(pod(agents[len(agents)-1], "agent", `"true"`))
	e.start(killedOnce(t, "jq", "cat"), retryMinDelay, retryMaxDelay)
	e.until("one namespace more, after the hook was killed", all)
	if e.failures() != 2 {
		t.Errorf("%d runs have failed, not 2", e.failures())
	}
}

// podNamespace makes a namespace that Pods can be created in.
func (e *example) podNamespace() string {
	e.t.Helper()
	ns := e.cluster.Namespace(e.t)
	e.kubectl("-n", ns, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
	return ns
}

// createPods creates Pods of several namespaces, for which there is no kubectl -n.
func (e *example) createPods(pods string) {
	e.t.Helper()
	e.cluster.KubectlInput(e.t, pods, "create", "-f", "-")
}

func pod(namespace, name, enable string, finalizers ...string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {namespace: %s, name: %s, annotations: {example.com/enable: %s}, finalizers: [%s]}
spec: {containers: [{name: main, image: busybox}]}
`, namespace, name, enable, strings.Join(finalizers, ","))
}

// release removes the finalizer that held a Pod.
func (e *example) release(namespace string) {
	e.t.Helper()
	e.kubectl("-n", namespace, "patch", "pod", "agent", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
}

// subjects are the namespaces in the binding, sorted. It fails the test when a subject is no default ServiceAccount.
func (e *example) subjects() []string {
	e.t.Helper()
	text := e.kubectl("get", "clusterrolebinding", "agent-exec", "--ignore-not-found", "-o", "json")
	if text == "" {
		return nil
	}
	var binding struct {
		RoleRef  struct{ Kind, Name string }
		Subjects []struct{ Kind, Name, Namespace string }
	}
	if err := json.Unmarshal([]byte(text), &binding); err != nil {
		e.t.Fatal(err)
	}
	if binding.RoleRef.Kind != "ClusterRole" || binding.RoleRef.Name != "agent-exec" {
		e.t.Errorf("the binding is of the role %v", binding.RoleRef)
	}
	var namespaces []string
	for _, s := range binding.Subjects {
		if s.Kind != "ServiceAccount" || s.Name != "default" {
			e.t.Errorf("a subject is %v", s)
		}
		namespaces = append(namespaces, s.Namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}

func (e *example) rules() string {
	e.t.Helper()
	return e.kubectl("get", "clusterrole", "agent-exec", "--ignore-not-found", "-o", "jsonpath={.rules}")
}

func (e *example) exists() bool { e.t.Helper(); return e.rules() != "" }

// mayExec checks the permission with the API server.
func (e *example) mayExec(namespace string) string {
	e.t.Helper()
	review := fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{
		"user":"system:serviceaccount:%s:default",
		"resourceAttributes":{"namespace":"%s","verb":"create","resource":"pods","subresource":"exec"}}}`, namespace, namespace)
	return e.input(review, "create", "-f", "-", "-o", "jsonpath={.status.allowed}")
}

// versions are the resource versions of both objects.
func (e *example) versions() string {
	e.t.Helper()
	return e.kubectl("get", "clusterrole,clusterrolebinding", "agent-exec", "-o", "jsonpath={.items[*].metadata.resourceVersion}")
}
