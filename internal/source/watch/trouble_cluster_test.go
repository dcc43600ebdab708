package watch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// allow gives a user permissions, everywhere or in a namespace.
func allow(t *testing.T, c *testenv.Cluster, user, namespace, group, resource string, verbs ...string) {
	t.Helper()
	kind, name := "ClusterRole", fmt.Sprintf("%s-%s.%s", user, resource, group)
	if namespace != "" {
		kind = "Role"
	}
	c.KubectlInput(t, fmt.Sprintf(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: %[1]s, metadata: {name: %[2]q, namespace: %[3]q},
 rules: [{apiGroups: [%[4]q], resources: [%[5]q], verbs: [%[6]s]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: %[1]sBinding, metadata: {name: %[2]q, namespace: %[3]q},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: %[2]q}, subjects: [{kind: User, name: %[7]q}]}
`, kind, name, namespace, group, resource, strings.Join(verbs, ","), user), "apply", "-f", "-")
	if namespace == "" {
		t.Cleanup(func() { c.Kubectl(t, "delete", "clusterrole/"+name, "clusterrolebinding/"+name, "--ignore-not-found") })
	}
}

// With permission to list but not to watch, there is an initial list, and an error that names the missing permission.
func TestWatchForbidden(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	group := ns + ".example.com"
	crd(t, c, group, "Thing", "Namespaced", "v1")
	custom(t, c, group+"/v1", "Thing", ns, "a")
	allow(t, c, "alice", ns, group, "things", "get", "list")
	c.UntilAllowed(t, "alice", ns, "list", "things."+group)
	o := observe(t, c.UserKubeconfig)
	h := o.unlocked(bindings("alice", hook.Kubernetes{APIVersion: group + "/v1", Kind: "Thing", Namespaces: inNamespaces(ns)}))
	o.sees(h, 0, ns+"/a")
	// It lists again and again, so changes come all the same.
	custom(t, c, group+"/v1", "Thing", ns, "b")
	o.expect("Added " + ns + "/b")
	if text := `no permission to watch things.` + group + ` (v1) in namespace ` + ns + `: give the`; strings.Count(o.log(), text) != 1 {
		t.Errorf("the log says not once: %s\n%s", text, o.log())
	}
	allow(t, c, "alice", ns, group, "things", "get", "list", "watch")
	custom(t, c, group+"/v1", "Thing", ns, "c")
	o.expect("Added " + ns + "/c")
}

// Without permission for namespaces the binding reports it, and follows them once the permission is granted.
func TestFollowForbidden(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	one, two := c.Namespace(t), c.Namespace(t)
	label := "follow=" + one
	group := one + ".example.com"
	crd(t, c, group, "Thing", "Namespaced", "v1")
	for _, ns := range []string{one, two} {
		custom(t, c, group+"/v1", "Thing", ns, "a")
		c.Kubectl(t, "label", "namespace", ns, label)
	}
	user := "user-" + one
	o := observe(t, c.Kubeconfig, as(user))
	h := bindings("forbidden",
		hook.Kubernetes{APIVersion: group + "/v1", Kind: "Thing", Namespaces: hook.Namespaces{ByLabels: true, Labels: label}})
	stuck, done := o.begin(h)
	want := `no permission to list namespaces (v1) with labels ` + label +
		`: give the operator's ServiceAccount, by a ClusterRole, the rule {apiGroups: [""], resources: ["namespaces"], verbs: ["get", ` +
		`"list", "watch"]}`
	if tr := test.Receive(t, stuck, "trouble"); tr.text != want {
		t.Errorf("got\n%s\nwant\n%s", tr.text, want)
	}
	allow(t, c, user, "", "", "namespaces", "get", "list", "watch")
	// W-9: namespaces that may not be read do not hold up the hook, and do not count as done.
	if err := test.Receive(t, done, "end of Enable"); err != nil {
		t.Fatal(err)
	}
	o.says("the hook starts without the objects of this namespace")
	o.Synchronize(h, 0)
	o.Unlock(h, 0)
	allow(t, c, user, one, group, "things", "get", "list", "watch")
	allow(t, c, user, two, group, "things", "get", "list", "watch")
	o.expectAnyOrder("Added "+one+"/a", "Added "+two+"/a")
	// A namespace that joins later and may not be watched is in the log, and recovers too.
	three := c.Namespace(t)
	custom(t, c, group+"/v1", "Thing", three, "a")
	c.Kubectl(t, "label", "namespace", three, label)
	custom(t, c, group+"/v1", "Thing", one, "b")
	o.expect("Added " + one + "/b")
	allow(t, c, user, three, group, "things", "get", "list", "watch")
	o.expect("Added " + three + "/a")
}

// Enable of an impossible binding ends with the operator.
func TestEnableEnds(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	proxy, kubeconfig := testenv.NewProxy(t, c, c.Kubeconfig)
	proxy.Cut()
	for _, row := range []struct{ name, kubeconfig, user, kind, text string }{
		{"unknown kind", c.Kubeconfig, "admin", "nosuch" + ns, "knows no kind"},
		{"no permission", c.Kubeconfig, "user-" + ns, "Secret", "no permission to list secrets (v1) in namespace " + ns},
		{"no API server", kubeconfig, "admin", "Secret", "cannot resolve kind"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := observe(t, row.kubeconfig, as(row.user))
			stuck, _ := o.begin(bindings("hook", hook.Kubernetes{APIVersion: "v1", Kind: row.kind, Namespaces: inNamespaces(ns)}))
			if tr := test.Receive(t, stuck, "trouble"); !strings.Contains(tr.text, row.text) {
				t.Errorf("got %s", tr.text)
			}
		}) // observe sees to the end of Enable and Run
	}
}
