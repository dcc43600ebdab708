package examples

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
)

func TestAgentInjector(t *testing.T) {
	t.Parallel()
	// One after the other: its ClusterRoleBinding has one subject.
	t.Run("undisturbed", func(t *testing.T) { agentInjector(prepareWebhooks(t, "agent-injector")) })
	t.Run("without workers", func(t *testing.T) {
		e := prepareWebhooks(t, "agent-injector")
		e.env = append(e.env, "SHELL_OPERATOR_WORKERS=false")
		agentInjector(e)
	})
	t.Run("killed", func(t *testing.T) { agentInjectorKilled(prepareWebhooks(t, "agent-injector").killed("jq")) })
}

func agentInjector(e *example) {
	e.start(e.configurationName(), "AGENT_IMAGE=agent:7")
	e.operator.UntilLog("Webhooks are registered", "kind", "MutatingWebhookConfiguration")
	e.patient("the first agent", func() bool {
		return e.injected("--dry-run=server", `"example.com/enable": "true"`, "main") == "main agent"
	})
	var registered struct {
		Webhooks []struct {
			FailurePolicy, MatchPolicy string
			TimeoutSeconds             int
		}
	}
	if err := json.Unmarshal([]byte(e.kubectl("get", "mutatingwebhookconfiguration", e.namespace+"-hooks", "-o", "json")),
		&registered); err != nil {
		e.t.Fatal(err)
	}
	if got := fmt.Sprint(registered.Webhooks); got != "[{Ignore Exact 30}]" {
		e.t.Errorf("registered is %s", got)
	}

	// The Deployment's controller creates all five in one burst. They have no names when the hook sees them.
	e.input(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":5,
		"selector":{"matchLabels":{"app":"web"}},"template":{
			"metadata":{"labels":{"app":"web"},"annotations":{`+agentAnnotations+`,"example.com/enable":"True"}},
			"spec":{"containers":[{"name":"main","image":"nginx"}]}}}}`, "create", "-f", "-")
	e.kubectl("wait", "--for=jsonpath={.status.replicas}=5", "deployment/web", "--timeout=60s")
	for i, pod := range e.pods("app=web", 5) {
		if got := pod.names(); got != "main agent" {
			e.t.Fatalf("Pod %d of the Deployment has the containers %q", i, got)
		}
		const want = `{"env":[{"name":"JOB_ADDRESS","value":"jobs.example.com:80"},{"name":"JOB_NAME","value":"build"},` +
			`{"name":"TARGET_CONTAINER","value":"main"},` +
			`{"name":"NAMESPACE","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}},` +
			`{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],` +
			`"image":"agent:7","name":"agent","ports":[{"containerPort":9999,"name":"agent","protocol":"TCP"}]}`
		if got := pod.container("env", "image", "name", "ports"); got != want {
			e.t.Errorf("the agent of Pod %d is\n%s, not\n%s", i, got, want)
		}
	}

	// Values that Go parses as true, and others. Pods with an agent, or without all annotations, stay unchanged.
	for _, yes := range []string{"1", "t", "T", "TRUE", "true", "True"} {
		if got := e.injected("--dry-run=server", `"example.com/enable": "`+yes+`"`, "main"); got != "main agent" {
			e.t.Errorf("enable %q: %s", yes, got)
		}
	}
	for _, no := range []string{"0", "f", "false", "yes", "tRue", "on", "", " true", "2"} {
		if got := e.injected("--dry-run=server", `"example.com/enable": "`+no+`"`, "main"); got != "main" {
			e.t.Errorf("enable %q: %s", no, got)
		}
	}
	const enable = `"example.com/enable": "true"`
	if got := e.injected("", enable, "main", "agent"); got != "main agent" {
		e.t.Errorf("who has an agent: %s", got)
	}
	if got := e.injected("", enable+`, "example.com/job-name": ""`, "main"); got != "main" {
		e.t.Errorf("an annotation is empty: %s", got)
	}
	for _, pod := range []string{
		`{"generateName": "half-", "annotations": {"example.com/enable": "true", "example.com/job-name": "build"}}`,
		`{"generateName": "none-"}`,
	} {
		if got := e.created(pod, "", "main").names(); got != "main" {
			e.t.Errorf("%s: %s", pod, got)
		}
	}
	if n := e.failures(); n > 0 {
		e.t.Errorf("%d runs have failed", n)
	}

	// Outside of a cluster no webhook is left when the operator has ended.
	e.stop()
	if left := e.kubectl("get", "mutatingwebhookconfiguration", e.namespace+"-hooks", "-o", "jsonpath={.webhooks}"); left != "" {
		e.t.Errorf("this was left behind: %s", left)
	}
}

// agentInjectorKilled starts with a hook that is killed: its Pod is created all the same.
func agentInjectorKilled(e *example) {
	e.start(e.configurationName())
	e.operator.UntilLog("Webhooks are registered", "kind", "MutatingWebhookConfiguration")
	pod := podText(`{"generateName": "one-", "annotations": {`+agentAnnotations+`, "example.com/enable": "true"}}`, "main")
	e.patient("a warning", func() bool {
		out, err := e.try(pod, "create", "-f", "-")
		if err != nil {
			e.t.Fatalf("the Pod is refused: %s", out)
		}
		return strings.Contains(out, "Warning: Hook failed") && strings.Contains(out, "the failure policy is Ignore")
	})
	for _, pod := range e.pods("", 1) {
		if got := pod.names(); got != "main" {
			e.t.Errorf("a Pod has been changed: %s", got)
		}
	}
	if got := e.injected("", `"example.com/enable": "true"`, "main"); got != "main agent" {
		e.t.Errorf("the Pod after it: %s", got)
	}
}

const agentAnnotations = `"example.com/job-address": "jobs.example.com:80", "example.com/target-container": "main", ` +
	`"example.com/job-name": "build"`

// injected creates a Pod with the three annotations and others, and returns the names of its containers.
func (e *example) injected(how, annotations string, containers ...string) string {
	e.t.Helper()
	return e.created(`{"generateName": "one-", "annotations": {`+agentAnnotations+`, `+annotations+`}}`, how, containers...).names()
}

func (e *example) created(metadata, how string, containers ...string) podObject {
	e.t.Helper()
	args := []string{"create", "-f", "-", "-o", "json"}
	if how != "" {
		args = append(args, how)
	}
	var pod podObject
	if err := json.Unmarshal([]byte(e.input(podText(metadata, containers...), args...)), &pod); err != nil {
		e.t.Fatal(err)
	}
	return pod
}

func podText(metadata string, containers ...string) string {
	var list []string
	for _, name := range containers {
		list = append(list, `{"name": "`+name+`", "image": "nginx"}`)
	}
	return `{"apiVersion": "v1", "kind": "Pod", "metadata": ` + metadata + `, "spec": {"containers": [` + strings.Join(list, ", ") + `]}}`
}

type podObject struct {
	Spec struct{ Containers []map[string]any }
}

// names are those of the containers.
func (p podObject) names() string {
	var names []string
	for _, c := range p.Spec.Containers {
		names = append(names, fmt.Sprint(c["name"]))
	}
	return strings.Join(names, " ")
}

// container is the last one, as JSON of some fields.
func (p podObject) container(fields ...string) string {
	some := map[string]any{}
	for _, f := range fields {
		some[f] = p.Spec.Containers[len(p.Spec.Containers)-1][f]
	}
	text, _ := json.Marshal(some)
	return string(text)
}

// pods returns those with labels, of which there are at least some.
func (e *example) pods(labels string, atLeast int) []podObject {
	e.t.Helper()
	var list struct{ Items []podObject }
	if err := json.Unmarshal([]byte(e.kubectl("get", "pods", "-l", labels, "-o", "json")), &list); err != nil {
		e.t.Fatal(err)
	}
	if len(list.Items) < atLeast {
		e.t.Fatalf("there are %d Pods, not %d", len(list.Items), atLeast)
	}
	return list.Items
}

// prepareWebhooks prepares an example whose webhooks are for one namespace only: the test's. Its configurations have a
// name of their own, too, which the permissions name.
func prepareWebhooks(t *testing.T, name string) *example {
	t.Helper()
	e := prepareAlone(t, name)
	rbac, err := os.ReadFile(filepath.Join(name, "manifests", "rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own := strings.NewReplacer("  namespace: "+name, "  namespace: "+e.namespace, name+"-hooks", e.namespace+"-hooks").Replace(string(rbac))
	e.input(own, "apply", "-f", "-")
	t.Cleanup(func() {
		e.kubectl("delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", e.namespace+"-hooks", "--ignore-not-found")
	})
	e.cluster.UntilRoles(t, "system:serviceaccount:"+e.namespace+":"+name, e.namespace, own)
	e.kubectl("label", "namespace", e.namespace, "example.com/"+name+"=enabled")
	e.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
	return e
}

func (e *example) configurationName() string {
	return "VALIDATING_WEBHOOK_CONFIGURATION_NAME=" + e.namespace
}

// try is input for a command that may fail. It returns the output of kubectl, warnings too.
func (e *example) try(input string, args ...string) (string, error) {
	e.t.Helper()
	return e.cluster.TryKubectl(input, append([]string{"-n", e.namespace}, args...)...)
}

// patient repeats a request until the API server calls the webhooks: it does so a moment after they are registered, without
// a notification.
func (e *example) patient(what string, done func() bool) {
	e.t.Helper()
	for late := time.Now().Add(test.Patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(late) {
			e.t.Fatalf("waited for %s", what)
		}
	}
}
