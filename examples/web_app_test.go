package examples

import (
	"fmt"
	"strings"
	"testing"
)

func TestWebApp(t *testing.T) {
	killedAndUndisturbed(t, prepare, "web-app", []string{"jq"}, webApp)
}

func webApp(e *example) {
	app := func(name, spec string) string {
		return fmt.Sprintf("---\napiVersion: example.com/v1\nkind: WebApp\nmetadata: {name: %s}\nspec: {%s}\n", name, spec)
	}
	e.input(app("first", "image: first, port: 80, settings: {COLOR: blue}"), "create", "-f", "-")
	e.env = append(e.env, "SHELL_OPERATOR_NAMESPACE="+e.namespace) // of the records of sets, as in a Pod
	e.start()
	children := func() string {
		return strings.TrimSpace(e.kubectl("get", "configmaps,deployments,services", "-l", "applyset.kubernetes.io/part-of", "-o",
			`jsonpath={range .items[*]}{.kind}/{.metadata.name}={.data}{.spec.template.spec.containers[*].image}{.spec.ports[*].port} {end}`))
	}
	reaches := func(what string, want ...string) {
		e.t.Helper()
		e.until(what, func() bool { return children() == strings.Join(want, " ") })
	}
	reaches("the objects of the first", `ConfigMap/first={"COLOR":"blue"}`, "Deployment/first=first", "Service/first=80")
	e.input(app("second", "image: second"), "create", "-f", "-")
	reaches("the objects of both", `ConfigMap/first={"COLOR":"blue"}`, "ConfigMap/second=", "Deployment/first=first",
		"Deployment/second=second", "Service/first=80")

	// Replicas are left to other clients, and the rest is restored.
	e.kubectl("scale", "deployment", "first", "--replicas=3")
	e.kubectl("patch", "configmap", "first", "--type=merge", "-p", `{"data":{"COLOR":"red"}}`)
	e.kubectl("wait", "--for=jsonpath={.data.COLOR}=blue", "configmap/first", "--timeout=60s")
	e.kubectl("delete", "service", "first")
	e.kubectl("wait", "--for=create", "service/first", "--timeout=60s")
	e.kubectl("patch", "webapp", "first", "--type=merge", "-p", `{"spec":{"port":null,"image":"newer","settings":{"COLOR":"green"}}}`)
	reaches("no Service without a port", `ConfigMap/first={"COLOR":"green"}`, "ConfigMap/second=", "Deployment/first=newer",
		"Deployment/second=second")
	if got := e.kubectl("get", "deployment", "first", "-o", "jsonpath={.spec.replicas}"); got != "3" {
		e.t.Errorf("the Deployment has %s replicas, not 3", got)
	}

	// What changes while the operator is away is completed at the next start; what has not changed is not written.
	version := func(object string) string {
		return e.kubectl("get", object, "-o", "jsonpath={.metadata.generation}")
	}
	before := version("deployment/second")
	e.stop()
	e.kubectl("patch", "webapp", "first", "--type=merge", "-p", `{"spec":{"image":"newest"}}`)
	e.start()
	reaches("the change while the operator was away", `ConfigMap/first={"COLOR":"green"}`, "ConfigMap/second=", "Deployment/first=newest",
		"Deployment/second=second")
	if after := version("deployment/second"); after != before {
		e.t.Errorf("the Deployment of the other object has generation %s, before %s", after, before)
	}
	e.kubectl("delete", "webapp", "first")
	e.kubectl("wait", "--for=delete", "deployment/first", "configmap/first", "--timeout=60s")
}
