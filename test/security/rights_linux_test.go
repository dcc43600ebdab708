package security

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const (
	// setsOfShop has a set with a member in the namespace of the other tenant, and an object that changes with each run.
	setsOfShop = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, schedule: [{crontab: "* * * * * *", queue: sets}]}'; exit; fi
echo '{operation: Sync, set: both, objects: [
  {apiVersion: v1, kind: ConfigMap, metadata: {name: member, namespace: SHOP}},
  {apiVersion: v1, kind: ConfigMap, metadata: {name: member, namespace: PAINT}}]}
---
{operation: CreateOrUpdate, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: changes, namespace: SHOP},
  data: {"at": "'$(date +%s)'"}}}' > "$KUBERNETES_PATCH_PATH"
`
	// sharesOfShop has a finalizer of KIND; the account may add it to one of two.
	sharesOfShop = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{name: shares, kind: KIND, queue: shares, finalizer: example.com/KIND,
    namespace: {nameSelector: {matchNames: [SHOP]}}, labelSelector: {matchLabels: {share: "yes"}}}]}'
  exit
fi
`
	shares = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: forbidden, namespace: SHOP, labels: {share: "yes"}}}
- {apiVersion: v1, kind: ResourceQuota, metadata: {name: done, namespace: SHOP, labels: {share: "yes"}}}
- {apiVersion: v1, kind: ResourceQuota, metadata: {name: kept, namespace: SHOP, labels: {share: "yes"}}}
- {apiVersion: v1, kind: ResourceQuota, metadata: {name: left, namespace: SHOP, labels: {share: "yes"}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: quotas, namespace: SHOP}
rules: [{apiGroups: [""], resources: [resourcequotas], verbs: [get, list, watch, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: quotas, namespace: SHOP}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: quotas}
subjects: [{kind: ServiceAccount, name: hooks, namespace: SHOP}]
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
// gone. HTTP hooks and webhooks that include a binding which the account may not read do not run. Without the account, uninstall removes
// what is left.
func TestRightsOfTenants(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	shop, paint, own := cluster.Namespace(t), cluster.Namespace(t), cluster.Namespace(t)
	in := strings.NewReplacer("SHOP", shop, "PAINT", paint).Replace
	account := "system:serviceaccount:" + shop + ":hooks"
	cluster.KubectlInput(t, in(accountsOf+"---"+shares), "apply", "-f", "-")
	cluster.UntilAllowed(t, account, shop, "patch", "resourcequotas")
	cluster.Kubectl(t, "-n", paint, "create", "configmap", "one")
	op := startTenants(t, cluster, map[string]string{"shop/sets.sh": in(setsOfShop), "shop/serves.sh": in(servesOfShop),
		"shop/forbidden.sh": strings.ReplaceAll(in(sharesOfShop), "KIND", "ConfigMap"),
		"shop/shares.sh":    strings.ReplaceAll(in(sharesOfShop), "KIND", "ResourceQuota")},
		fmt.Sprintf("- {name: shop, folder: shop, serviceAccount: %[1]s/hooks, webhooks: [%[1]s]}\n", shop),
		"--namespace", own, "--validating-webhook-configuration-name", shop)
	logged(t, op, "a set that is not allowed", "shop/sets.sh", account, `in the namespace "`+paint, "forbidden")
	logged(t, op, "a finalizer that is not allowed", "shop/forbidden.sh", "no permission to add the finalizer",
		"give the ServiceAccount "+shop+"/hooks")
	page := "http://" + op.UntilLog("HTTP hooks are served").Fields["address"] + "/shop/page"
	logged(t, op, "a denied binding", "Enable Kubernetes binding for hook failed", "shop/serves.sh", "may not list and watch configmaps")
	if status, body := testenv.Get(t, page); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "the hook waits for a token or a permission") {
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

	cluster.Kubectl(t, "-n", shop, "wait", "--for=jsonpath={.metadata.finalizers[0]}=example.com/ResourceQuota", "--timeout=180s",
		"quota/done", "quota/kept", "quota/left")
	cluster.Kubectl(t, "-n", shop, "delete", "quota", "done", "--timeout=180s")
	cluster.Kubectl(t, "-n", shop, "delete", "serviceaccount", "hooks")
	untilRejected(t, op, func(int) {}) // the set sends a request each second
	cluster.Kubectl(t, "-n", shop, "delete", "quota", "kept", "left", "--wait=false")
	if left := cluster.Kubectl(t, "-n", shop, "get", "quota", "-o", "jsonpath={.items[*].metadata.finalizers}"); left !=
		`["example.com/ResourceQuota"] ["example.com/ResourceQuota"]` {
		t.Errorf("the finalizers of objects of a deleted account are %s", left)
	}
	if out, err := op.Command("finalizers", "remove", "ResourceQuota", shop+"/kept").CombinedOutput(); err != nil {
		t.Errorf("finalizers remove: %v\n%s", err, out)
	}
	cluster.Kubectl(t, "-n", shop, "wait", "--for=delete", "quota/kept", "--timeout=180s")
	op.Signal(syscall.SIGTERM)
	op.Wait()
	uninstall := exec.Command(testenv.Binary(t), "uninstall", "--namespace", own, "--validating-webhook-configuration-name",
		shop, "--kube-config", cluster.Kubeconfig)
	if out, err := uninstall.CombinedOutput(); err != nil {
		t.Errorf("uninstall: %v\n%s", err, out)
	}
	if left := cluster.Kubectl(t, "-n", shop, "get", "quota", "-o", "name"); left != "" {
		t.Errorf("after uninstall are left: %s", left)
	}
}
