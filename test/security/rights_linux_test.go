package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const (
	// setsOfShop has a set with a member in the namespace of the other tenant.
	setsOfShop = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, schedule: [{crontab: "* * * * * *", queue: sets}]}'; exit; fi
echo '{operation: Sync, set: both, objects: [
  {apiVersion: v1, kind: ConfigMap, metadata: {name: member, namespace: SHOP}},
  {apiVersion: v1, kind: ConfigMap, metadata: {name: member, namespace: PAINT}}]}' > "$KUBERNETES_PATCH_PATH"
`
	sharesOfShop = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{name: shares, kind: ConfigMap, queue: shares, finalizer: example.com/share,
    namespace: {nameSelector: {matchNames: [SHOP]}}, labelSelector: {matchLabels: {share: "yes"}}}]}'
  exit
fi
`
	// servesOfShop answers with a snapshot of the namespace of the other tenant.
	servesOfShop = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1,
    kubernetes: [{name: foreign, kind: ConfigMap, executeHookOnEvent: [], namespace: {nameSelector: {matchNames: [PAINT]}},
      nameSelector: {matchNames: [one]}, executeHookOnSynchronization: false}],
    http: [{name: page, method: GET, path: /shop/page, includeSnapshotsFrom: [foreign]}],
    kubernetesValidating: [{name: SHOP.example.com, includeSnapshotsFrom: [foreign],
      rules: [{apiGroups: [""], apiVersions: [v1], resources: [secrets], operations: [CREATE]}]}]}'
  exit
fi
case $(cat "$BINDING_CONTEXT_PATH") in
*'"name":"one"'*) names=one ;;
esac
if [ -n "${VALIDATING_RESPONSE_PATH-}" ]; then
  echo '{"allowed": false, "message": "the hook has seen '$names'"}' > "$VALIDATING_RESPONSE_PATH"
fi
if [ -n "${HTTP_RESPONSE_PATH-}" ]; then echo '{"status": 200, "body": "'$names'"}' > "$HTTP_RESPONSE_PATH"; fi
`
	mayInShop = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: hooks, namespace: SHOP}
rules: [{apiGroups: [""], resources: [configmaps, configmaps/finalizers], verbs: ["*"]}]
`
	membersInPaint = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: members, namespace: PAINT}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, create, patch, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: members, namespace: PAINT}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: members}
subjects: [{kind: ServiceAccount, name: hooks, namespace: SHOP}]
`
)

// Sets and finalizers of a tenant are written as its account, their records as the operator, which removes a finalizer when the account is
// gone. HTTP hooks and webhooks that include a binding which the account may not read do not run.
func TestRightsOfTenants(t *testing.T) {
	if !testenv.Long() {
		t.Skip("takes minutes: make long")
	}
	t.Parallel()
	cluster := testenv.Shared(t)
	shop, paint, own := cluster.Namespace(t), cluster.Namespace(t), cluster.Namespace(t)
	in := strings.NewReplacer("SHOP", shop, "PAINT", paint).Replace
	account := "system:serviceaccount:" + shop + ":hooks"
	cluster.KubectlInput(t, in(accountsOf), "apply", "-f", "-")
	cluster.UntilAllowed(t, account, shop, "update", "configmaps")
	cluster.Kubectl(t, "-n", paint, "create", "configmap", "one")
	for _, name := range []string{"done", "kept"} {
		cluster.Kubectl(t, "-n", shop, "create", "configmap", name)
		cluster.Kubectl(t, "-n", shop, "label", "configmap", name, "share=yes")
	}
	op := startTenants(t, cluster, map[string]string{"shop/sets.sh": in(setsOfShop), "shop/shares.sh": in(sharesOfShop),
		"shop/serves.sh": in(servesOfShop)},
		fmt.Sprintf("- {name: shop, folder: shop, serviceAccount: %[1]s/hooks, webhooks: [%[1]s]}\n", shop),
		"--namespace", own, "--validating-webhook-configuration-name", shop)
	logged(t, op, "a set that is not allowed", "shop/sets.sh", account, `in the namespace "`+paint, "forbidden")
	logged(t, op, "a finalizer that is not allowed", "shop/shares.sh", "no permission to add the finalizer",
		"give the ServiceAccount "+shop+"/hooks")
	page := "http://" + op.UntilLog("HTTP hooks are served").Fields["address"] + "/shop/page"
	logged(t, op, "a denied binding", "Enable Kubernetes binding for hook failed", "shop/serves.sh", "may not list and watch configmaps")
	if status, body := testenv.Get(t, page); status != http.StatusInternalServerError {
		t.Errorf("with a denied binding: %d %s", status, body)
	}
	op.UntilLog("Webhooks are registered")
	secret := func(namespace string) (string, error) {
		return cluster.TryKubectl("", "-n", namespace, "create", "secret", "generic", "a")
	}
	if _, err := secret(shop); err == nil {
		t.Error("a webhook with a denied binding has allowed a request; its failure policy is Fail")
	}
	if _, err := secret(paint); err != nil {
		t.Errorf("a Secret in a namespace that the tenant has no webhooks for: %v", err)
	}

	cluster.KubectlInput(t, in(mayInShop+"---"+membersInPaint+"---"+readsPaint), "apply", "-f", "-")
	logged(t, op, "a granted binding", "The account of the tenant may read the objects of the binding now", "foreign")
	for _, namespace := range []string{shop, paint} {
		cluster.Kubectl(t, "-n", namespace, "wait", "--for=create", "configmap/member", "--timeout=180s")
	}
	records := cluster.Kubectl(t, "-n", own, "get", "configmaps", "-o", "name")
	if !strings.Contains(records, "shell-operator-") {
		t.Errorf("the records in the namespace of the operator: %s", records)
	}
	op.Until("the page of the hook", func([]testenv.Record) bool {
		status, body := testenv.Get(t, page)
		return status == http.StatusOK && body == "one"
	})
	if out, err := secret(shop); err == nil || !strings.Contains(out, "the hook has seen one") {
		t.Errorf("the webhook of the tenant: %v %s", err, out)
	}

	for _, name := range []string{"done", "kept"} {
		cluster.Kubectl(t, "-n", shop, "wait", "--for=jsonpath={.metadata.finalizers[0]}=example.com/share", "configmap/"+name, "--timeout=180s")
	}
	cluster.Kubectl(t, "-n", shop, "delete", "configmap", "done", "--timeout=180s")
	cluster.Kubectl(t, "-n", shop, "delete", "serviceaccount", "hooks")
	untilRejected(t, op, func(int) {
		cluster.Kubectl(t, "-n", shop, "delete", "configmap", "member", "--ignore-not-found") // the set creates it again
	})
	cluster.Kubectl(t, "-n", shop, "delete", "configmap", "kept", "--wait=false")
	if finalizers := cluster.Kubectl(t, "-n", shop, "get", "configmap", "kept", "-o", "jsonpath={.metadata.finalizers}"); !strings.Contains(
		finalizers, "example.com/share") {
		t.Errorf("the finalizers of an object of a deleted account are %q", finalizers)
	}
	if out, err := op.Command("finalizers", "remove", "ConfigMap", shop+"/kept").CombinedOutput(); err != nil {
		t.Errorf("finalizers remove: %v\n%s", err, out)
	}
	cluster.Kubectl(t, "-n", shop, "wait", "--for=delete", "configmap/kept", "--timeout=180s")
}
