package insight

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// status returns what the command prints, and its exit status.
func status(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(testenv.Binary(t), append([]string{"status"}, args...)...)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// TestUnregisteredWebhook: a webhook that cannot be registered is in every view, and the operator stays ready.
func TestUnregisteredWebhook(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	hooks := t.TempDir()
	const owner = `#!/bin/sh
[ "$1" = --config ] && cat <<END
configVersion: v1
kubernetesMutating:
- name: owner.example.com
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
END
exit 0
`
	testenv.Script(t, hooks, "owner.sh", owner)
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: c.UserKubeconfig,
		Args: []string{"--validating-webhook-configuration-name", namespace}})
	op.UntilLog("Cannot register webhooks. Will retry after delay.", "kind", "MutatingWebhookConfiguration")
	const problem = "webhooks are not registered"
	at := op.UntilLog("base http server started")
	address := at.Fields["address"] + ":" + at.Fields["port"]
	for name, args := range map[string][]string{"the socket": {"--debug-unix-socket", op.Socket}, "the address": {"--url", address}} {
		if text, code := status(t, args...); code != 1 ||
			!strings.Contains(text, "MutatingWebhookConfiguration "+namespace+"-hooks: owner.sh: "+problem) {
			t.Errorf("status by %s: exit status %d\n%s", name, code, text)
		}
	}
	for path, want := range map[string]string{
		"/readyz":  problem,
		"/":        problem,
		"/metrics": `shell_operator_troubles{hook="owner.sh",kind="registration"} 1`,
	} {
		if text := op.Page(path); !strings.Contains(text, want) || path == "/readyz" && !strings.HasPrefix(text, "ok\n") {
			t.Errorf("%s lacks %q:\n%s", path, want, text)
		}
	}
	if list := op.Ask("hooks"); !strings.Contains(list, "not registered") {
		t.Errorf("hooks:\n%s", list)
	}
}

// warner makes the API server send warnings: an unknown field, and a deprecated version for a set and a finalizer.
const warner = `#!/bin/bash
if [[ $1 == --config ]]; then
  cat <<END
configVersion: v1
kubernetes:
- name: things
  apiVersion: NAMESPACE.example.com/v1
  kind: Thing
  finalizer: NAMESPACE.example.com/cleanup
  executeHookOnEvent: [Added, Deleting]
  initialObjects: added
  namespace: {nameSelector: {matchNames: [NAMESPACE]}}
END
  exit
fi
cat > "$KUBERNETES_PATCH_PATH" <<END
operation: CreateOrUpdate
object:
  {apiVersion: v1, kind: Service, metadata: {name: web, namespace: NAMESPACE}, spec: {ports: [{port: 80, prot: TCP}], selectr: {a: b}}}
---
operation: Sync
set: children
objects: [{apiVersion: NAMESPACE.example.com/v1, kind: Other, metadata: {name: child, namespace: NAMESPACE}}]
END
`

// TestWarningsOfAPIServer: they belong to the run, the object and the hook, and client-go does not log them.
func TestWarningsOfAPIServer(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	for plural, kind := range map[string]string{"things": "Thing", "others": "Other"} {
		crd := plural + "." + namespace + ".example.com"
		c.KubectlInput(t, `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "`+crd+`"},
  "spec": {"group": "`+namespace+`.example.com", "scope": "Namespaced",
    "names": {"kind": "`+kind+`", "plural": "`+plural+`", "singular": "`+strings.ToLower(kind)+`"},
    "versions": [{"name": "v1", "served": true, "storage": true, "deprecated": true, "deprecationWarning": "`+kind+` is old",
      "schema": {"openAPIV3Schema": {"type": "object"}}}]}}`, "create", "-f", "-")
		t.Cleanup(func() { c.Kubectl(t, "delete", "crd/"+crd, "--ignore-not-found", "--wait=false") })
		c.Kubectl(t, "wait", "--for=condition=Established", "crd/"+crd)
	}
	c.KubectlInput(t, `{"apiVersion": "`+namespace+`.example.com/v1", "kind": "Thing", "metadata": {"name": "one"}}`, "-n", namespace,
		"create", "-f", "-")
	t.Cleanup(func() {
		c.Kubectl(t, "-n", namespace, "patch", "things."+namespace+".example.com/one", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	})
	hooks := t.TempDir()
	testenv.Script(t, hooks, "warner.sh", strings.ReplaceAll(warner, "NAMESPACE", namespace))
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: c.Kubeconfig, Args: []string{"--namespace", namespace}})
	op.UntilLog("Hook executed successfully")
	shown := op.Ask("runs", "show", op.UntilLog("Execute hook").Fields["run"])
	for _, want := range []string{
		"CreateOrUpdate Service " + namespace +
			"/web\n    warning: unknown field \"spec.ports[0].prot\"\n    warning: unknown field \"spec.selectr\"\n",
		"warning: others " + namespace + "/child: Other is old\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("runs show lacks %q:\n%s", want, shown)
		}
	}
	op.UntilLog("The API server warns about a change", "hook", "warner.sh", "object", "Service "+namespace+"/web", "warning",
		`unknown field "spec.selectr"`)
	op.UntilLog("The API server warns about a change of a finalizer", "object", "things "+namespace+"/one", "warning", "Thing is old")
	if metrics := op.Page("/metrics"); !strings.Contains(metrics, `shell_operator_hook_api_warnings_total{hook="warner.sh"} `) {
		t.Errorf("the metric is missing")
	}
	for _, r := range op.Records() {
		if r.Fields["source"] == "klog" && (strings.Contains(r.Text, "unknown field") || strings.Contains(r.Text, "Other is old")) {
			t.Errorf("client-go has logged it: %s", r.Text)
		}
	}
}
