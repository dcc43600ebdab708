package memory_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// commands are arguments of kubectl, with the manifest that one reads from its standard input after "<".
var commands = []string{
	"get namespaces",
	"create configmap one --from-literal=a=1",
	"create configmap one --from-literal=a=1",
	`patch configmap one -p {"data":{"b":"2"}}`,
	"get configmap one -o jsonpath={.data}",
	"run web --image=nginx --labels=app=web",
	"label pod web tier=front",
	`patch pod web -p {"spec":{"containers":[{"name":"web","image":"nginx:2"},{"name":"more","image":"more"}]}}`,
	"get pods -l app=web,tier=front -o jsonpath={.items[*].spec.containers[*].image}",
	"get pods --field-selector=metadata.name=other -o name",
	"get pods --field-selector=spec.color=red -o name",
	"apply -f - < {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, " +
		"spec: {replicas: 1, template: {spec: {containers: [{name: a, image: a}]}}}}",
	"apply -f - < {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, " +
		"spec: {replicas: 1, template: {spec: {containers: [{name: b, image: b}]}}}}",
	"apply -f - < {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicase: 1}}",
	"scale deployment d --replicas=3",
	"get deployment d -o jsonpath={.spec.replicas}/{.spec.template.spec.containers[*].name}/{.metadata.generation}",
	"create -f - < " + gizmoCRD,
	"wait --for=condition=Established crd/gizmos.memory.example.com --timeout=10s",
	"apply -f - < {apiVersion: memory.example.com/v1, kind: Gizmo, metadata: {name: g}, spec: {color: red}}",
	"apply -f - < {apiVersion: memory.example.com/v1, kind: Gizmo, metadata: {name: g}, spec: {color: blue}}",
	"apply --server-side -f - < {apiVersion: memory.example.com/v1, kind: Gizmo, metadata: {name: g}, spec: {color: green}}",
	"get gizmo g -o jsonpath={.spec.color}",
	"create namespace team",
	"create secret generic s --from-literal=a=1 -n team",
	"create secret generic s --from-literal=a=1 -n missing",
	"create -f - < {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: l}}, " +
		"{apiVersion: v1, kind: Secret, metadata: {name: m}, date: {}}]}",
	"get secrets -A -o name",
	"delete namespace team",
	"get secrets -A -o name",
	"delete crd gizmos.memory.example.com",
	"get gizmos",
	"delete namespace default",
	"auth can-i delete nodes",
	"create deployment d --image=nginx",
	"delete pod web",
	"delete configmaps --all",
	"get all -o name",
}

// TestKubectl compares what kubectl prints with testdata/kubectl.txt.
func TestKubectl(t *testing.T) {
	testenv.Require(t) // it needs bin/kubectl
	c := testenv.Memory(t)
	var out strings.Builder
	for _, command := range commands {
		args, input, _ := strings.Cut(command, " < ")
		text, err := c.TryKubectl(input, strings.Fields(args)...)
		out.WriteString("$ kubectl " + strings.ReplaceAll(command, "\n", "") + "\n")
		for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
			out.WriteString("  " + age.ReplaceAllString(line, " AGE\n"))
		}
		if err != nil {
			out.WriteString("  " + err.Error() + "\n")
		}
	}
	golden.Compare(t, "testdata/kubectl.txt", out.String())
	if info, err := os.Stat(c.Kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig: %v, %v", info, err)
	}
}

var age = regexp.MustCompile(` [0-9]+s\n`)
