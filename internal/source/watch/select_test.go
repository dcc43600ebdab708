package watch

import (
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestSelectors(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	namespaces := someNamespaces(t, c, 3)
	one, two, three := namespaces[0], namespaces[1], namespaces[2]
	for _, ns := range namespaces {
		secret(t, c, ns, "a", "1")
		secret(t, c, ns, "b", "2")
		secret(t, c, ns, "c", "2")
	}
	all := inNamespaces(one, two)
	for _, test := range []struct {
		name    string
		binding hook.Kubernetes
		want    []string
	}{
		{"namespaces", hook.Kubernetes{Namespaces: all}, []string{one + "/a", one + "/b", one + "/c", two + "/a", two + "/b", two + "/c"}},
		{"a name", hook.Kubernetes{Namespaces: all, Names: []string{"a"}}, []string{one + "/a", two + "/a"}},
		{"names", hook.Kubernetes{Namespaces: all, Names: []string{"a", "c", "nosuch"}},
			[]string{one + "/a", one + "/c", two + "/a", two + "/c"}},
		{"labels", hook.Kubernetes{Namespaces: all, Labels: "v=2"}, []string{one + "/b", one + "/c", two + "/b", two + "/c"}},
		{"labels, fields and names", hook.Kubernetes{Namespaces: all, Names: []string{"a", "b"}, Labels: "v=2", Fields: "type=Opaque"},
			[]string{one + "/b", two + "/b"}},
		{"nothing there", hook.Kubernetes{Namespaces: inNamespaces("nosuch-" + one)}, nil},
		{"a field and no namespace", hook.Kubernetes{Fields: "metadata.namespace=" + three}, []string{three + "/a", three + "/b", three + "/c"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := observe(t, c.Kubeconfig)
			test.binding.APIVersion, test.binding.Kind = "v1", "Secret"
			h := bindings("selector", test.binding)
			o.enable(h)
			o.sees(h, 0, test.want...)
		})
	}
}

// An object that begins to match is added, one that ends to match is deleted, with the state that still matched.
func TestChangeOfLabels(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	secret(t, c, ns, "a", "1")
	secret(t, c, ns, "b", "2")
	o := observe(t, c.Kubeconfig)
	h := o.unlocked(bindings("labels", hook.Kubernetes{Kind: "secret", Namespaces: inNamespaces(ns), Labels: "v=1",
		JQFilter: ".metadata.labels"}))
	secret(t, c, ns, "b", "1")
	secret(t, c, ns, "a", "3")
	c.Kubectl(t, "-n", ns, "label", "secret", "b", "w=1")
	c.Kubectl(t, "-n", ns, "delete", "secret", "a", "b")
	o.expect(
		"Added "+ns+`/b {"v":"1"}`,
		"Deleted "+ns+`/a {"v":"1"}`,
		"Modified "+ns+`/b {"v":"1","w":"1"}`,
		"Deleted "+ns+`/b {"v":"1","w":"1"}`,
	)
	o.sees(h, 0)
}

// C-15: a restriction to namespaces does not apply to a cluster-scoped kind.
func TestClusterScopedKindWithNamespaces(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	for _, namespaces := range []hook.Namespaces{inNamespaces("default", ns), {ByLabels: true, Labels: "nosuch=" + ns}} {
		o := observe(t, c.Kubeconfig)
		h := o.unlocked(bindings("cluster", hook.Kubernetes{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Names: []string{ns},
			Namespaces: namespaces}))
		c.Kubectl(t, "create", "clusterrole", ns, "--verb=get", "--resource=pods")
		c.Kubectl(t, "delete", "clusterrole", ns)
		o.expect("Added "+ns, "Deleted "+ns)
		o.sees(h, 0)
		if n := strings.Count(o.log(), "its restriction to namespaces is ignored"); n != 1 {
			t.Errorf("%d warnings", n)
		}
	}
}

// A namespace that is named and does not exist is worth one warning.
func TestMissingNamespaceIsNamed(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	o := observe(t, c.Kubeconfig)
	h := bindings("h", hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces(ns, "nosuch-"+ns)})
	o.enable(h)
	o.says(`msg="The namespace does not exist (yet): check namespace.nameSelector.matchNames of the binding" hook=h binding=binding-0 ` +
		`namespace=nosuch-` + ns)
	if strings.Contains(o.log(), "namespace="+ns) {
		t.Errorf("the log warns of a namespace that exists:\n%s", o.log())
	}
	if absent := o.State(h, 0).Absent; !slices.Equal(absent, []string{"nosuch-" + ns}) {
		t.Errorf("absent are %q", absent)
	}
}
