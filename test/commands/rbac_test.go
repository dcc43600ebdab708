package commands

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestRBAC starts an operator with exactly the permissions that rbac prints, and checks that it needs no others.
func TestRBAC(t *testing.T) {
	c := testenv.Shared(t)
	own, shop, bank := c.Namespace(t), c.Namespace(t), c.Namespace(t)
	c.Kubectl(t, "label", "namespace", shop, bank, "rbac-test="+own)
	crd := strings.ReplaceAll(own, "-", "") + "s"
	c.KubectlInput(t, fmt.Sprintf(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "%[1]s.rbac.example.com"},
		"spec": {"group": "rbac.example.com", "scope": "Namespaced", "names": {"plural": "%[1]s", "singular": "%[1]s", "kind": "Odd%[1]s"}, "versions": [
			{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
			{"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`, crd), "create", "-f", "-")
	t.Cleanup(func() { c.Kubectl(t, "delete", "crd", crd+".rbac.example.com", "--wait=false") })
	c.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd/"+crd+".rbac.example.com")

	dir := testenv.Hooks(t, map[string]string{
		"wide": fmt.Sprintf(`#!/bin/sh
if [ "$1" != --config ]; then exit; fi
cat <<YAML
configVersion: v1
kubernetes:
- {name: nodes, kind: node, nameSelector: {matchNames: [one, two]}}
- {name: odd, kind: Odd%s, apiVersion: rbac.example.com/v1}
- {name: labelled, kind: Deployment, namespace: {labelSelector: {matchLabels: {rbac-test: %s}}}}
YAML
`, crd, own),
		"narrow": fmt.Sprintf(`#!/bin/sh
if [ "$1" != --config ]; then exit; fi
cat <<YAML
configVersion: v1
kubernetes:
- {name: pods, kind: Pod, namespace: {nameSelector: {matchNames: [%[1]s, %[2]s]}}}
- {name: settings, kind: ConfigMap, nameSelector: {matchNames: [a, b, c]}, namespace: {nameSelector: {matchNames: [%[1]s, %[2]s]}}}
- name: secret
  kind: Secret
  namespace: {nameSelector: {matchNames: [%[1]s]}}
  fieldSelector: {matchExpressions: [{field: type, operator: "!=", value: x}, {field: metadata.name, operator: "=", value: one}]}
YAML
`, shop, bank),
		"reviews": fmt.Sprintf(`#!/bin/sh
if [ "$1" != --config ]; then exit; fi
cat <<YAML
configVersion: v1
kubernetesValidating:
- name: check.example.com
  failurePolicy: Ignore
  namespace: {labelSelector: {matchLabels: {rbac-test: nowhere}}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], scope: "*"}]
kubernetesMutating:
- name: change.example.com
  failurePolicy: Ignore
  namespace: {labelSelector: {matchLabels: {rbac-test: nowhere}}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], scope: "*"}]
kubernetesCustomResourceConversion:
- {name: convert, crdName: %s.rbac.example.com, conversions: [{fromVersion: v1, toVersion: v2}]}
YAML
`, crd),
	})
	manifests := command(t, c.Kubeconfig, "rbac", "--hooks-dir", dir, "--namespace", own, "--name", own, "--service-account", "operator",
		"--validating-webhook-configuration-name", own, "--leader-election", "--leader-election-lease", "baton")
	if strings.Contains(manifests, "GUESSED") {
		t.Errorf("the cluster knows all kinds, but\n%s", manifests)
	}
	c.Kubectl(t, "-n", own, "create", "serviceaccount", "operator")
	c.KubectlInput(t, manifests, "apply", "-f", "-")
	t.Cleanup(func() { c.Kubectl(t, "delete", "clusterrole,clusterrolebinding", own) })

	c.UntilRoles(t, "system:serviceaccount:"+own+":operator", own, manifests)
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: dir, Kubeconfig: c.KubeconfigOf(t, own, "operator"),
		Args: []string{"--validating-webhook-configuration-name", own, "--leader-election", "--leader-election-lease", "baton",
			"--namespace", own},
	})
	op.UntilLog("This replica runs the hooks")
	for _, h := range []string{"narrow", "wide"} {
		op.UntilLog("Kubernetes bindings for hook are enabled successfully", "hook", h)
	}
	for _, kind := range []string{"validating", "mutating"} {
		c.Kubectl(t, "wait", "--for=create", "--timeout=60s", kind+"webhookconfiguration/"+own+"-hooks")
	}
	c.Kubectl(t, "wait", "--for=jsonpath={.spec.conversion.strategy}=Webhook", "--timeout=60s", "crd/"+crd+".rbac.example.com")
	for _, r := range op.Records() {
		if strings.Contains(strings.ToLower(r.Text), "no permission") || strings.Contains(r.Text, "forbidden") {
			t.Errorf("a right is missing: %s", r.Text)
		}
	}
	// The narrow ones are narrow indeed.
	for _, what := range [][3]string{{"list", "pods", own}, {"list", "configmaps", shop}, {"create", "pods", shop}, {"list", "secrets", shop},
		{"list", "pods", ""}} {
		if answer := c.KubectlInput(t, review(own, what[0], what[1], what[2]), "create", "-f", "-", "-o",
			"jsonpath={.status.allowed}"); answer != "false" {
			t.Errorf("may the operator %s? %s", what, answer)
		}
	}
}

// review sends an access review for a permission of the operator.
func review(own, verb, resource, namespace string) string {
	return fmt.Sprintf(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "system:serviceaccount:%s:operator",
		"resourceAttributes": {"verb": %q, "resource": %q, "namespace": %q}}}`, own, verb, resource, namespace)
}
