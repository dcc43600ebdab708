package outage

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The CRD of an optional kind comes, goes and comes again, and the API server starts between and beside the starts of the operator: nothing is
// pruned in doubt. Each step waits for a read of the kinds, so this takes minutes; package watch has a model of it for every change.
func TestOptionalKind(t *testing.T) {
	testenv.Require(t)
	if !test.Long() {
		t.Skip("LONG=1 runs it")
	}
	cluster := testenv.Own(t)
	ns, hooks := cluster.Namespace(t), t.TempDir()
	testenv.Script(t, hooks, "hook", testenv.Testdata(t, "optional.sh", "$NS", ns))
	kubectl := func(args ...string) string {
		t.Helper()
		return cluster.Kubectl(t, append([]string{"-n", ns}, args...)...)
	}
	kubectl("create", "configmap", "owner", "--from-literal=touched=0")
	start := func() *testenv.Operator {
		return testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.Kubeconfig, Args: []string{"--namespace", ns}})
	}
	saw := func(op *testenv.Operator, touched, things int) {
		t.Helper()
		op.UntilLog(fmt.Sprintf("saw %d with %d things", touched, things))
	}
	touch := func(to int) {
		t.Helper()
		kubectl("patch", "configmap", "owner", "--type=merge", "-p", fmt.Sprintf(`{"data": {"touched": "%d"}}`, to))
	}
	// children returns the objects of the set, with their uids.
	children := func() string {
		t.Helper()
		var all []string
		for line := range strings.Lines(kubectl("get", "configmaps", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)) {
			if strings.HasPrefix(line, "child-") {
				all = append(all, strings.TrimSpace(line))
			}
		}
		return strings.Join(all, ",")
	}
	install := func(thing string) {
		t.Helper()
		cluster.KubectlInput(t, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.%[1]s.example.com},
  spec: {group: %[1]s.example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true,
  schema: {openAPIV3Schema: {type: object}}}]}}`, ns), "create", "-f", "-")
		kubectl("wait", "--for=condition=Established", "crd/things."+ns+".example.com", "--timeout=60s")
		for {
			out, err := cluster.TryKubectl(fmt.Sprintf(`{apiVersion: %s.example.com/v1, kind: Thing, metadata: {name: %s}}`, ns, thing), "create", "-f", "-")
			if err == nil {
				return
			}
			if !strings.Contains(out, "no matches for kind") {
				t.Fatal(out)
			}
		}
	}

	op := start()
	saw(op, 0, 0)
	install("a")
	saw(op, 0, 1)
	kubectl("wait", "--for=create", "configmap/child-a", "--timeout=60s")
	first := children()
	unchanged := func(when string) {
		t.Helper()
		if now := children(); now != first {
			t.Errorf("%s the children are %s, not %s", when, now, first)
		}
	}
	cluster.Kill(t, "kube-apiserver")
	cluster.Restart(t, "kube-apiserver")
	touch(1)
	saw(op, 1, 1)
	unchanged("after a restart of the API server")
	cluster.Kill(t, "kube-apiserver")
	op.Expect(-1)
	op.Signal(syscall.SIGKILL)
	op.Wait()
	op = start() // beside the start of the API server
	cluster.Restart(t, "kube-apiserver")
	touch(2)
	saw(op, 2, 1)
	unchanged("after a restart of both")
	for _, r := range op.Records() {
		if strings.HasSuffix(r.Fields["msg"], "with 0 things") {
			t.Error(r.Text)
		}
	}
	kubectl("delete", "crd", "things."+ns+".example.com")
	saw(op, 2, 0)
	kubectl("wait", "--for=delete", "configmap/child-a", "--timeout=60s")
	op.UntilLog("The kind of an optional binding is gone: its snapshot is empty until it is installed again")
	install("b")
	saw(op, 2, 1)
	kubectl("wait", "--for=create", "configmap/child-b", "--timeout=60s")
}
