package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
		"default":      "",
		"everything":   everything,
		"cert-manager": "webhooks: {mutating: true, conversion: {enabled: true, crds: [crontabs.example.com]}, certificates: {from: CertManager}}",
		"own issuer":   "webhooks: {validating: true, certificates: {from: CertManager, issuerRef: {name: ca, kind: ClusterIssuer}}}",
		"own Secret":   "webhooks: {validating: true, certificates: {from: Secret, secretName: tls}}\nhooks: {configMap: mine}\nresources: null",
		"OpenShift":    "podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}",
	} {
		t.Run(name, func(t *testing.T) {
			namespace := cluster.Namespace(t)
			cluster.Kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
			manifest, problem := render(t, namespace, values)
			if problem != "" {
				t.Fatal(problem)
			}
			t.Cleanup(func() {
				cluster.KubectlInput(t, manifest, "delete", "--ignore-not-found", "--wait=false", "-f", "-")
			})
			cluster.KubectlInput(t, manifest, "apply", "--server-side", "--validate=strict", "-f", "-")
			// Once more: nothing that the API server fills in gets in the way.
			cluster.KubectlInput(t, manifest, "apply", "--server-side", "--validate=strict", "-f", "-")
			createPod(t, cluster, namespace, parse(t, manifest)["Deployment/shop-shell-operator"])
		})
	}
}

// TestManifestsApply lets the API server take the plain manifests, twice, and a Pod as their Deployment makes it.
func TestManifestsApply(t *testing.T) {
	cluster := testenv.Shared(t)
	text, err := os.ReadFile("manifests/shell-operator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cluster.KubectlInput(t, string(text), "delete", "--ignore-not-found", "--wait=false", "-f", "-")
	})
	for range 2 {
		cluster.KubectlInput(t, string(text), "apply", "--server-side", "--validate=strict", "-f", "-")
	}
	const namespace = "shell-operator"
	cluster.Kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	createPod(t, cluster, namespace, parse(t, string(text))["Deployment/shell-operator"])
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

// TestRolesOfBoth applies what rbac prints and what the chart makes, in both orders: neither replaces the rules of the other.
func TestRolesOfBoth(t *testing.T) {
	cluster := testenv.Shared(t)
	hooks := t.TempDir()
	write(t, filepath.Join(hooks, "watch"), "#!/bin/sh\necho '{configVersion: v1, kubernetes: [{kind: ConfigMap, namespace: {nameSelector: {matchNames: ['$HOOK_NAMESPACE']}}}]}'\n", 0o755)
	for _, name := range []string{"rbac first", "chart first"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			printed := exec.Command(testenv.Binary(t), "rbac", "--hooks-dir", hooks, "--namespace", namespace, "--offline")
			printed.Env = append(os.Environ(), "HOOK_NAMESPACE="+namespace)
			rbac, err := printed.Output()
			if err != nil {
				t.Fatal(err)
			}
			// The release name of the plain manifests, whose ServiceAccount is the default of rbac.
			chart, err := exec.Command(tool(t, "chart"), "render", "--name", "shell-operator", "--namespace", namespace, "chart").Output()
			if err != nil {
				t.Fatal(err)
			}
			apply := []func(){
				func() { cluster.KubectlInput(t, string(rbac), "apply", "-f", "-") },
				func() { cluster.KubectlInput(t, string(chart), "apply", "--server-side", "-f", "-") },
			}
			if name == "chart first" {
				slices.Reverse(apply)
			}
			for _, f := range apply {
				f()
			}
			for _, question := range []string{"list configmaps", "create events.events.k8s.io"} {
				args := append([]string{"auth", "can-i", "--as=system:serviceaccount:" + namespace + ":shell-operator", "-n", namespace}, strings.Fields(question)...)
				if got := canI(t, cluster, args); got != "yes" {
					t.Errorf("can it %s? %s", question, got)
				}
			}
		})
	}
}

// TestAllowed checks the permissions of the ServiceAccount by SubjectAccessReviews.
func TestAllowed(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	manifest, problem := render(t, namespace, `
replicas: 2
webhooks: {validating: true}
rbac: {rules: [{apiGroups: [""], resources: [pods], verbs: [list, watch]}]}
`)
	if problem != "" {
		t.Fatal(problem)
	}
	t.Cleanup(func() { cluster.KubectlInput(t, manifest, "delete", "--wait=false", "-f", "-") })
	cluster.KubectlInput(t, manifest, "apply", "--server-side", "-f", "-")
	account := "--as=system:serviceaccount:" + namespace + ":shop-shell-operator"
	for question, want := range map[string]string{
		"list pods":                              "yes",
		"delete pods":                            "no",
		"list pods -n default":                   "no",
		"get secret/shop-shell-operator-webhook": "yes",
		"get secret/another":                     "no",
		"create secrets":                         "no",
		"update lease/shop-shell-operator":       "yes",
		"update lease/another":                   "no",
		"update validatingwebhookconfigurations/" + namespace + "-shop-shell-operator-hooks": "yes",
		"update validatingwebhookconfigurations/another":                                     "no",
		"list mutatingwebhookconfigurations":                                                 "no",
	} {
		args := append([]string{"auth", "can-i", account, "-n", namespace}, strings.Fields(question)...)
		if got := canI(t, cluster, args); got != want {
			t.Errorf("may it %s? %s, want %s", question, got, want)
		}
	}
}

// canI is the answer of kubectl auth can-i, which ends with an error when it is no.
func canI(t *testing.T, cluster *testenv.Cluster, args []string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(testenv.Tools(t), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	out, err := cmd.Output()
	answer := strings.TrimSpace(string(out))
	if answer == "" {
		t.Fatalf("kubectl %q: %v", args, err)
	}
	return strings.Fields(answer)[0]
}
