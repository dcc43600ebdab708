package security

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// startTenants starts an operator with the hooks of tenants.
func startTenants(t *testing.T, cluster *testenv.Cluster, files map[string]string, tenants string, args ...string) *testenv.Operator {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tenants.yaml")
	if err := os.WriteFile(file, []byte(tenants), 0o600); err != nil {
		t.Fatal(err)
	}
	return testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks(t, files), Kubeconfig: cluster.Kubeconfig,
		Args: append([]string{"--tenants", file, "--retry-min-delay", "100ms", "--retry-max-delay", "1s"}, args...)})
}

// logged waits for a record with all parts, in any of its fields.
func logged(t *testing.T, op *testenv.Operator, what string, parts ...string) {
	t.Helper()
	op.Until(what, func(records []testenv.Record) bool {
		return slices.ContainsFunc(records, func(r testenv.Record) bool {
			text := fmt.Sprint(r.Fields)
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
		})
	})
}

// untilRejected repeats what needs the account of a tenant until a token of the deleted account is rejected: the API server remembers
// tokens that it has accepted, for a few seconds.
func untilRejected(t *testing.T, op *testenv.Operator, use func(n int)) {
	t.Helper()
	rejected := func(records []testenv.Record) bool {
		return slices.ContainsFunc(records, func(r testenv.Record) bool {
			return r.Has("Cannot get a token of the account. Will retry after delay.") && strings.Contains(r.Fields["error"], "not found")
		})
	}
	for n := 0; op.TryUntil(time.Second, rejected) != nil; n++ {
		if n == 180 {
			t.Fatal("the deleted account is not noticed")
		}
		use(n)
	}
}

const (
	// ofShop reads ConfigMaps of two namespaces, and writes one into its own.
	ofShop = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [
    {name: own, kind: ConfigMap, queue: own, namespace: {nameSelector: {matchNames: [SHOP]}}, nameSelector: {matchNames: [one, two]}},
    {name: foreign, kind: ConfigMap, queue: foreign, namespace: {nameSelector: {matchNames: [PAINT]}}, nameSelector: {matchNames: [one]}}]}'
  exit
fi
binding=$(grep -o '"binding": *"[a-z]*"' "$BINDING_CONTEXT_PATH" | head -1)
echo "runs for $binding as $(kubectl auth whoami -o jsonpath='{.status.userInfo.username}' 2>&1)"
echo '{operation: CreateOrUpdate, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: made, namespace: SHOP}}}' \
  > "$KUBERNETES_PATCH_PATH"
`
	// ofPaint writes into the namespace of the other tenant.
	ofPaint = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
echo '{operation: Create, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: stolen, namespace: SHOP}}}' > "$KUBERNETES_PATCH_PATH"
`
	accountsOf = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: hooks, namespace: SHOP}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: hooks, namespace: PAINT}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: hooks, namespace: SHOP}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: hooks, namespace: SHOP}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: hooks}
subjects: [{kind: ServiceAccount, name: hooks, namespace: SHOP}]
`
	readsPaint = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reads, namespace: PAINT}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [one], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reads, namespace: PAINT}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads}
subjects: [{kind: ServiceAccount, name: hooks, namespace: SHOP}]
`
)

// What hooks of a tenant read and write is what its account may, whatever the operator may. A binding begins when its
// permission is granted, and a tenant whose account is deleted waits until it is there again. A broken hook of a tenant is left out.
func TestAccountsOfTenants(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	shop, paint := cluster.Namespace(t), cluster.Namespace(t)
	in := strings.NewReplacer("SHOP", shop, "PAINT", paint).Replace
	cluster.KubectlInput(t, in(accountsOf), "apply", "-f", "-")
	cluster.UntilAllowed(t, "system:serviceaccount:"+shop+":hooks", shop, "update", "configmaps")
	for _, namespace := range []string{shop, paint} {
		cluster.Kubectl(t, "-n", namespace, "create", "configmap", "one")
	}
	op := startTenants(t, cluster, map[string]string{"shop/a.sh": in(ofShop), "paint/a.sh": in(ofPaint),
		"shop/broken.sh": "#!/bin/sh\necho 'no: config'\n"},
		fmt.Sprintf("- {name: shop, folder: shop, serviceAccount: %s/hooks}\n- {name: paint, folder: paint, serviceAccount: %s/hooks}\n",
			shop, paint), "--namespace", shop, "--log-level", "debug")
	account := "system:serviceaccount:" + shop + ":hooks"
	logged(t, op, "a broken hook", "A hook is broken and left out", "shop/broken.sh")
	logged(t, op, "a denied binding", "Enable Kubernetes binding for hook failed", "may not list and watch configmaps",
		`give the ServiceAccount `+shop+`/hooks`,
		`in namespace "`+paint+`"`)
	logged(t, op, "a run of its own binding", `"own" as `+account)
	logged(t, op, "an operation that is not allowed", "paint/a.sh", "system:serviceaccount:"+paint+":hooks", "cannot create resource",
		"give the ServiceAccount "+paint+"/hooks")
	if _, err := cluster.TryKubectl("", "-n", shop, "get", "configmap", "stolen"); err == nil {
		t.Error("a hook has written into the namespace of another tenant")
	}
	for _, r := range op.Records() {
		if strings.Contains(fmt.Sprint(r.Fields), `"foreign" as`) {
			t.Errorf("the hook runs with objects that its account may not read: %v", r)
		}
	}
	if status := op.Ask("why", "shop/a.sh"); !strings.Contains(status, "may not list and watch configmaps") {
		t.Errorf("why:\n%s", status)
	}
	cluster.KubectlInput(t, in(readsPaint), "apply", "-f", "-")
	logged(t, op, "a granted binding", "The account of the tenant may read the objects of the binding now", "foreign")
	logged(t, op, "a run of the granted binding", `"foreign" as `+account)

	cluster.Kubectl(t, "-n", shop, "delete", "serviceaccount", "hooks")
	untilRejected(t, op, func(n int) {
		cluster.Kubectl(t, "-n", shop, "patch", "configmap", "one", "-p", fmt.Sprintf(`{"data": {"n": "%d"}}`, n))
	})
	out, _ := op.Command("status").CombinedOutput() // it fails while there are troubles
	if status := string(out); !strings.Contains(status, `tenant "shop"`) ||
		!strings.Contains(status, "create the ServiceAccount "+shop+"/hooks") {
		t.Errorf("status:\n%s", status)
	}
	cluster.KubectlInput(t, in(accountsOf), "apply", "-f", "-")
	logged(t, op, "a new token", "The token of the account is renewed again", shop+"/hooks")
	before := strings.Count(op.Log(), "Hook executed successfully")
	cluster.Kubectl(t, "-n", shop, "create", "configmap", "two")
	op.Until("a run with the new token", func([]testenv.Record) bool {
		return strings.Count(op.Log(), "Hook executed successfully") > before
	})
}

// ofAny reports as whom it runs.
const ofAny = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1, settings: {record: all}}'; exit; fi
echo "am $(kubectl auth whoami -o jsonpath='{.status.userInfo.username}' 2>&1)"
echo '{operation: CreateOrUpdate, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: made, namespace: SHOP}}}' \
  > "$KUBERNETES_PATCH_PATH"
`

// A tenant gets its first hook at a reload, has another account after one, and loses the hook. A recorded run of the hook can be replayed
// elsewhere, and has no token. A file of tenants that is not valid changes nothing.
func TestTenantsAreReloaded(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	shop, paint := cluster.Namespace(t), cluster.Namespace(t)
	in := strings.NewReplacer("SHOP", shop, "PAINT", paint).Replace
	cluster.KubectlInput(t, in(accountsOf), "apply", "-f", "-")
	cluster.UntilAllowed(t, "system:serviceaccount:"+shop+":hooks", shop, "update", "configmaps")
	dir, tenants := hooks(t, map[string]string{"plain.sh": atStart}), filepath.Join(t.TempDir(), "tenants.yaml")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	assign := func(namespace string) {
		t.Helper()
		write(tenants, fmt.Sprintf("- {name: shop, folder: shop, serviceAccount: %s/hooks}\n", namespace), 0o600)
	}
	assign(shop)
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig,
		Args: []string{"--tenants", tenants, "--watch-hooks", "--retry-min-delay", "100ms", "--retry-max-delay", "1s"}})
	logged(t, op, "a tenant without hooks", "A tenant has no hooks", "shop")
	path := filepath.Join(dir, "shop", "a.sh")
	write(path, in(ofAny), 0o755)
	op.UntilLog("am system:serviceaccount:"+shop+":hooks", "hook", "shop/a.sh")
	id := op.UntilLog("Execute hook", "hook", "shop/a.sh").Fields["run"]
	op.UntilLog("Hook executed successfully", "hook", "shop/a.sh")
	recording := op.Ask("runs", "save", id, "-")
	if !strings.Contains(recording, "CreateOrUpdate") || strings.Contains(recording, "eyJ") { // so tokens begin
		t.Errorf("the recording:\n%s", recording)
	}
	saved := filepath.Join(t.TempDir(), "saved.json")
	write(saved, recording, 0o600)
	if out, err := op.Command("run", path, "--from", saved).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "the result is that of the recorded run") {
		t.Errorf("the replay: %v\n%s", err, out)
	}

	write(tenants, "- {name: shop}\n", 0o600)
	write(path, in(ofAny)+"# changed\n", 0o755)
	logged(t, op, "an invalid file of tenants", "the file of tenants is not valid")
	assign(paint)
	write(path, in(ofAny)+"# changed again\n", 0o755)
	logged(t, op, "a run of another account", "shop/a.sh", "system:serviceaccount:"+paint+":hooks", "cannot")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	op.UntilLog("Hooks are reloaded", "removed", "shop/a.sh")
	// An attempt of the removed hook may still be in progress, with which status fails.
	if status, _ := op.Command("status").Output(); !bytes.Contains(status, []byte("hooks: 1")) || bytes.Contains(status, []byte("tenant")) {
		t.Errorf("status:\n%s", status)
	}
}

const (
	// readsAll has a stream with the objects of all namespaces.
	readsAll = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{kind: ConfigMap, executeHookOnEvent: [], executeHookOnSynchronization: false}]}'
fi
`
	readsNames = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: names, namespace: PAINT}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [a, b, c, one], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: names, namespace: PAINT}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: names}
subjects: [{kind: ServiceAccount, name: hooks, namespace: SHOP}]
`
	ofNames = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{name: named, kind: ConfigMap, nameSelector: {matchNames: [a, b, c, one]},
    namespace: {nameSelector: {matchNames: [PAINT]}}}]}'
  exit
fi
echo "has $(grep -Eo '"name": *"(one|two)"' "$BINDING_CONTEXT_PATH" | sort -u | cut -d '"' -f 4 | tr '\n' ' ')"
`
	ofLabels = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{name: labelled, kind: ConfigMap, namespace: {labelSelector: {matchLabels: {team: SHOP}}}}]}'
  exit
fi
echo "sees $(grep -Eo '"namespace": *"[^"]*"' "$BINDING_CONTEXT_PATH" | sort -u | cut -d '"' -f 4 | tr '\n' ' ')"
`
)

// The objects of a namespace that joins a binding by its labels need the permission, too, also if a stream of another hook has them. Without
// it the binding ends, until the namespace leaves. A binding for names, whose stream has all objects, needs the permission for the names.
func TestNamespaceOfTenantJoins(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	shop, paint := cluster.Namespace(t), cluster.Namespace(t)
	in := strings.NewReplacer("SHOP", shop, "PAINT", paint).Replace
	cluster.KubectlInput(t, in(accountsOf), "apply", "-f", "-")
	cluster.UntilAllowed(t, "system:serviceaccount:"+shop+":hooks", shop, "update", "configmaps")
	for _, namespace := range []string{shop, paint} {
		cluster.Kubectl(t, "-n", namespace, "create", "configmap", "one")
	}
	cluster.Kubectl(t, "-n", paint, "create", "configmap", "two")
	cluster.KubectlInput(t, in(readsNames), "apply", "-f", "-")
	cluster.Kubectl(t, "label", "namespace", shop, "team="+shop)
	op := startTenants(t, cluster, map[string]string{"all.sh": readsAll, "shop/labels.sh": in(ofLabels), "shop/names.sh": in(ofNames)},
		fmt.Sprintf("- {name: shop, folder: shop, serviceAccount: %s/hooks}\n", shop), "--log-level", "debug")
	logged(t, op, "a stream that was widened", "Wider watches serve the binding", "shop/names.sh")
	if has := op.UntilLog("has ", "hook", "shop/names.sh").Fields["msg"]; strings.TrimSpace(has) != "has one" {
		t.Errorf("the hook with names %q", has)
	}
	op.UntilLog("sees "+shop, "hook", "shop/labels.sh")
	cluster.Kubectl(t, "label", "namespace", paint, "team="+shop)
	logged(t, op, "the end of the binding", "may not read the objects of the binding any more", `by a Role in namespace "`+paint+`"`)
	cluster.Kubectl(t, "label", "namespace", paint, "team-")
	logged(t, op, "the binding again", "The account of the tenant may read the objects of the binding now", "labelled")
	op.Until("another Synchronization", func(records []testenv.Record) bool {
		runs := 0
		for _, r := range records {
			if r.Has("sees ") {
				if runs++; strings.Contains(r.Fields["msg"], paint) {
					t.Errorf("the hook %s", r.Fields["msg"])
				}
			}
		}
		return runs >= 2
	})
}
