package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestApply lets the API server take what the chart makes: it knows all fields, the Pod is one that the strictest of the Pod
// security standards lets in, and the ServiceAccount may do what it should, and no more.
func TestApply(t *testing.T) {
	cluster := testenv.Shared(t)
	definitions, err := os.ReadFile("testdata/crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster.KubectlInput(t, string(definitions), "apply", "--server-side", "-f", "-")
	cluster.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd/servicemonitors.monitoring.coreos.com",
		"crd/prometheusrules.monitoring.coreos.com", "crd/issuers.cert-manager.io", "crd/certificates.cert-manager.io")
	for name, values := range map[string]string{
		"default":    "",
		"everything": everything,
		"cert-manager": "webhooks: {mutating: true, conversion: {enabled: true, crds: [crontabs.example.com]}, " +
			"certificates: {from: CertManager}}",
		"own issuer": "webhooks: {validating: true, certificates: {from: CertManager, issuerRef: {name: ca, kind: ClusterIssuer}}}",
		"ConfigMaps": "hooks: {configMaps: [a, b]}\nwatchHooks: true\nsettings: {hook-timeout: 5m, listen-port: 9200, " +
			"http-body-limit: 2000000, hook-env: [A, B]}\nmetrics: {service: true}",
		"git": "hooks: {git: {repository: 'https://example.com/hooks.git', path: shop, secretName: key}}",
		"image volume": "hooks: {image: {reference: 'registry.example.com/hooks:v1', path: shop}}\nhostUsers: false\ndnsPolicy: None\n" +
			"dnsConfig: {nameservers: [10.0.0.1]}\nhostAliases: [{ip: 10.0.0.2, hostnames: [db]}]\n" +
			"extraObjects: [{apiVersion: v1, kind: Secret, metadata: {name: more}}]",
		"host network": "hostNetwork: true\nwebhooks: {validating: true}\nsettings: {listen-port: 9200, validating-webhook-listen-port: 10250}",
		"own Secret":   "webhooks: {validating: true, certificates: {from: Secret, secretName: tls}}\nhooks: {configMap: mine}\nresources: null",
		"uninstallJob": "finalizers: {enabled: true}\nuninstallJob: {ttlSecondsAfterFinished: 60, tolerations: [{key: a, operator: Exists}]}",
		"OpenShift":    "podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}",
	} {
		if !test.Long() && slices.Contains([]string{"git", "image volume"}, name) {
			continue // the tests of the chart render them
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			if name != "host network" { // which only the standard privileged has
				cluster.Kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
			}
			manifest, problem := render(t, namespace, values, "--no-hooks")
			if problem != "" {
				t.Fatal(problem)
			}
			t.Cleanup(func() {
				cluster.KubectlInput(t, manifest, "delete", "--ignore-not-found", "--wait=false", "-f", "-")
			})
			cluster.KubectlInput(t, manifest, "apply", "--server-side", "--validate=strict", "-f", "-")
			if name == "everything" { // a second time: nothing that the API server fills in gets in the way
				cluster.KubectlInput(t, manifest, "apply", "--server-side", "--validate=strict", "-f", "-")
			}
			createPod(t, cluster, namespace, parse(t, manifest)["Deployment/shop-shell-operator"])
			whole, _ := render(t, namespace, values)
			hooks := helmHooks(whole)
			cluster.KubectlInput(t, hooks, "apply", "--dry-run=server", "--server-side", "--validate=strict", "-f", "-")
			if job := parse(t, hooks)["Job/shop-shell-operator-uninstall"]; job != nil {
				cluster.Kubectl(t, "-n", namespace, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
				// its own was a dry run
				if err := unstructured.SetNestedField(job.Object, "default", "spec", "template", "spec", "serviceAccountName"); err != nil {
					t.Fatal(err)
				}
				createPod(t, cluster, namespace, job)
			}
		})
	}
}

// helmHooks are the documents of a manifest that Helm applies at other times.
func helmHooks(manifest string) string {
	documents := slices.DeleteFunc(strings.Split(manifest, "\n---\n"), func(d string) bool {
		return !strings.Contains(d, "\n    helm.sh/hook: ")
	})
	return strings.Join(documents, "\n---\n")
}

// TestConfigMapLabels lets Helm find ConfigMaps by their labels.
func TestConfigMapLabels(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	for name, label := range map[string]string{"b": "team=shop", "a": "team=shop", "c": "team=other"} {
		cluster.Kubectl(t, "-n", namespace, "create", "configmap", name, "--from-literal=hook.sh=x")
		cluster.Kubectl(t, "-n", namespace, "label", "configmap", name, label)
	}
	manifest, problem := render(t, namespace, "hooks: {configMaps: [z], configMapLabels: {team: shop}}", "--kubeconfig", cluster.Kubeconfig)
	if problem != "" {
		t.Fatal(problem)
	}
	mounts := regexp.MustCompile(`mountPath: (/hooks/\w+)`).FindAllStringSubmatch(manifest, -1)
	if got := fmt.Sprint(mounts); got != "[[mountPath: /hooks/a /hooks/a] [mountPath: /hooks/b /hooks/b] [mountPath: /hooks/z /hooks/z]]" {
		t.Errorf("mounted are %s", got)
	}
	_, problem = render(t, namespace, "hooks: {configMapLabels: {team: none}}", "--kubeconfig", cluster.Kubeconfig)
	if !strings.Contains(problem, "Helm finds no ConfigMap with these labels in namespace "+namespace) {
		t.Errorf("the error is %s", problem)
	}
}

// TestUninstall runs the Job of helm uninstall with its arguments, variables and permissions: the Deployment, the
// finalizers and the sets are gone.
func TestUninstall(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	const values = "webhooks: {validating: true, mutating: true}\nkubernetesEvents: false\nargs: [--hook-timeout, " +
		"5m]\nfinalizers: {enabled: true}\nsets: {deleteOnUninstall: true}\n" +
		"rbac: {rules: [{apiGroups: [''], resources: [configmaps], verbs: [get, list, watch, patch, create, delete]}]}"
	installed, problem := render(t, namespace, values, "--no-hooks")
	if problem != "" {
		t.Fatal(problem)
	}
	cluster.KubectlInput(t, installed, "apply", "--server-side", "-f", "-")
	whole, _ := render(t, namespace, values)
	hooks := helmHooks(whole)
	t.Cleanup(func() {
		cluster.KubectlInput(t, whole, "delete", "--ignore-not-found", "--wait=false", "-f", "-")
	})
	job := parse(t, hooks)["Job/shop-shell-operator-uninstall"]
	cluster.KubectlInput(t, hooks, "apply", "--server-side", "-f", "-")
	entry := `{"instance": "` + namespace + `.shop-shell-operator", "finalizer": "example.com/f", "apiVersion": "v1",
  "resource": "configmaps", "kind": "ConfigMap", "namespaced": true,
  "namespaces": ["` + namespace + `"], "hook": "h", "binding": "b"}`
	cluster.KubectlInput(t, `{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "namespace": "`+namespace+`",
    "finalizers": ["example.com/f", "example.com/other"]}},
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shell-operator-finalizers", "namespace": "`+namespace+`",
    "annotations": {"shell-operator/format": "1"}},
   "data": {"example.com_f_configmaps": `+strconv.Quote(entry)+`}}]}`,
		"create", "--field-manager=shell-operator/"+namespace+".shop-shell-operator", "-f", "-")

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hook"), []byte(`#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
echo '{operation: Sync, set: web, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: of-a-set}}]}' >"$KUBERNETES_PATCH_PATH"
`), 0o755); err != nil {
		t.Fatal(err)
	}
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig,
		Args: []string{"--namespace", namespace, "--instance", namespace + ".shop-shell-operator", "--kubernetes-events=false"}})
	until(t, "the set is applied", func() bool {
		return cluster.Kubectl(t, "-n", namespace, "get", "configmap/of-a-set", "--ignore-not-found") != ""
	})
	op.Signal(syscall.SIGTERM)
	op.Wait()

	var spec struct {
		Template struct {
			Spec struct {
				ServiceAccountName string
				Containers         []struct {
					Args []string
					Env  []struct{ Name, Value string }
				}
			}
		}
	}
	text, err := json.Marshal(job.Object["spec"])
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	pod := spec.Template.Spec
	cluster.UntilRoles(t, "system:serviceaccount:"+namespace+":"+pod.ServiceAccountName, namespace, hooks)
	cmd := exec.CommandContext(t.Context(), testenv.Binary(t), pod.Containers[0].Args...)
	cmd.Env = []string{"KUBECONFIG=" + cluster.KubeconfigOf(t, namespace, pod.ServiceAccountName), "TMPDIR=" + t.TempDir()}
	for _, e := range pod.Containers[0].Env {
		if e.Value == "" {
			e.Value = namespace // all that are used come from metadata.namespace
		}
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "its Pods have ended") {
		t.Errorf("%v: %s", err, out)
	}
	if got := cluster.Kubectl(t, "-n", namespace, "get", "configmap/owned", "-o",
		"jsonpath={.metadata.finalizers}"); got != `["example.com/other"]` {
		t.Errorf("the object has the finalizers %s", got)
	}
	for _, left := range []string{"deployment/shop-shell-operator", "configmap/shell-operator-finalizers", "configmap/of-a-set"} {
		if got := cluster.Kubectl(t, "-n", namespace, "get", left, "--ignore-not-found"); got != "" {
			t.Errorf("this was not uninstalled: %s", got)
		}
	}
}

// createPod makes a Pod as the Deployment would: the Deployment itself only logs that its Pods are refused.
func createPod(t *testing.T, cluster *testenv.Cluster, namespace string, deployment *unstructured.Unstructured) {
	t.Helper()
	spec, err := json.Marshal(deployment.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"])
	if err != nil {
		t.Fatal(err)
	}
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod"},"spec":` + string(spec) + `}`
	cluster.KubectlInput(t, pod, "create", "--dry-run=server", "-n", namespace, "-f", "-")
}

// TestWebhooksSwitchedOff emulates helm upgrade. The operator, with the permissions and names of the chart, writes the webhooks, and a
// further upgrade leaves them alone. With webhooks.validating: false the configuration is gone, so a failure policy blocks nothing; a hook
// that still has a binding is a problem.
func TestWebhooksSwitchedOff(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	const on, off = "kubernetesEvents: false\nwebhooks: {validating: true}", "kubernetesEvents: false"
	configuration := "validatingwebhookconfiguration/" + namespace + "-shop-shell-operator-admission-hooks"
	installed := map[string]string{}
	upgrade := func(values string) {
		t.Helper()
		manifest, problem := render(t, namespace, values, "--no-hooks")
		if problem != "" {
			t.Fatal(problem)
		}
		cluster.KubectlInput(t, manifest, "apply", "--server-side", "-f", "-")
		objects := map[string]string{}
		for name, o := range parse(t, manifest) {
			text, err := json.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			objects[name] = string(text)
		}
		for name, text := range installed {
			if objects[name] == "" {
				cluster.KubectlInput(t, text, "delete", "-f", "-")
			}
		}
		installed = objects
	}
	t.Cleanup(func() {
		for _, text := range installed {
			cluster.KubectlInput(t, text, "delete", "--ignore-not-found", "--wait=false", "-f", "-")
		}
	})
	upgrade(on)
	cluster.UntilAllowed(t, "system:serviceaccount:"+namespace+":shop-shell-operator", namespace, "update", configuration)

	hooks := t.TempDir()
	if err := os.WriteFile(filepath.Join(hooks, "deny.sh"), []byte(`#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetesValidating: [{name: deny.example.com, failurePolicy: Fail,
    namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: `+namespace+`}}},
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}]}'
  exit
fi
echo '{"allowed": false, "message": "nothing is allowed here"}' >"$VALIDATING_RESPONSE_PATH"
`), 0o755); err != nil {
		t.Fatal(err)
	}
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: hooks, Kubeconfig: cluster.KubeconfigOf(t, namespace, "shop-shell-operator"),
		Args: []string{"--validating-webhook-configuration-name", namespace + "-shop-shell-operator-admission",
			"--validating-webhook-listen-address", "127.0.0.1", "--validating-webhook-listen-port", "0", "--kubernetes-events=false"},
	})
	op.UntilLog("Webhooks are registered")
	denied := func() bool {
		out, err := cluster.TryKubectl("", "-n", namespace, "create", "configmap", "reviewed", "--dry-run=server")
		return err != nil && strings.Contains(out+err.Error(), "nothing is allowed here")
	}
	until(t, "a request is denied", denied)
	upgrade(on)
	if got := cluster.Kubectl(t, "get", configuration, "-o", "jsonpath={.webhooks[*].name}"); got != "deny.example.com" || !denied() {
		t.Errorf("after an upgrade with the same values the webhooks are %q", got)
	}
	upgrade(off)
	if got := cluster.Kubectl(t, "get", configuration, "--ignore-not-found"); got != "" {
		t.Errorf("switched off, there is still %s", got)
	}
	until(t, "requests are not reviewed any more", func() bool {
		_, err := cluster.TryKubectl("", "-n", namespace, "create", "configmap", "reviewed", "--dry-run=server")
		return err == nil
	})
	op.UntilLog("Cannot register webhooks. Will retry after delay.")
	until(t, "status shows that", func() bool {
		out, _ := op.Command("status").CombinedOutput() // the exit status reports the problem
		return strings.Contains(string(out), "webhooks are not registered")
	})
}

// until waits for what the API server and the operator notice some time later.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(test.Patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not so: %s", what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
