package watch

import (
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestFollowNamespaces(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	one, other := c.Namespace(t), c.Namespace(t)
	two := one + "-deleted" // by this test
	c.Kubectl(t, "create", "namespace", two)
	t.Cleanup(func() { c.Kubectl(t, "delete", "namespace", two, "--ignore-not-found", "--wait=false") })
	for _, ns := range []string{one, two, other} {
		secret(t, c, ns, "a", "1")
		secret(t, c, ns, "b", "1")
	}
	label := "follow=" + one
	c.Kubectl(t, "label", "namespace", one, label)
	o := observe(t, c.Kubeconfig)
	h := bindings("follow",
		hook.Kubernetes{Kind: "Secret", Namespaces: hook.Namespaces{ByLabels: true, Labels: label}},
		hook.Kubernetes{Kind: "Secret", Namespaces: hook.Namespaces{ByLabels: true, Labels: label}, Names: []string{"b", "c"},
			JQFilter: ".metadata.labels.v"},
	)
	o.unlocked(h)
	o.sees(h, 0, one+"/a", one+"/b")
	o.sees(h, 1, one+`/b "1"`)
	if n := o.Streams(); n != 1+1+2 {
		t.Errorf("%d streams for the namespaces, the Secrets of one, and two by name", n)
	}

	// A namespace that begins to match brings its objects.
	c.Kubectl(t, "label", "namespace", two, label)
	o.expectAnyOrder("Added "+two+"/a", "Added "+two+"/b", "Added "+two+`/b "1"`)
	secret(t, c, two, "c", "2")
	o.expectAnyOrder("Added "+two+"/c", "Added "+two+`/c "2"`)
	o.sees(h, 0, one+"/a", one+"/b", two+"/a", two+"/b", two+"/c")
	if n := o.Streams(); n != 1+2+4 {
		t.Errorf("%d streams", n)
	}

	// One that ends to match takes them along, and its streams end.
	c.Kubectl(t, "label", "namespace", one, "follow-")
	o.expectAnyOrder("Deleted "+one+"/a", "Deleted "+one+"/b", "Deleted "+one+`/b "1"`)
	secret(t, c, one, "a", "3")
	secret(t, c, other, "a", "3")
	secret(t, c, two, "a", "3")
	o.expect("Modified " + two + "/a")

	// Other changes of a namespace are ignored.
	c.Kubectl(t, "label", "namespace", two, "more=labels")

	// Objects of a namespace that is deleted are deleted once.
	c.Kubectl(t, "delete", "namespace", two)
	o.expectAnyOrder("Deleted "+two+"/a", "Deleted "+two+"/b", "Deleted "+two+"/c", "Deleted "+two+`/b "1"`, "Deleted "+two+`/c "2"`)

	// And it may come back.
	c.Kubectl(t, "label", "namespace", one, label)
	o.expectAnyOrder("Added "+one+"/a", "Added "+one+"/b", "Added "+one+`/b "1"`)
	o.sees(h, 0, one+"/a", one+"/b")
	o.sees(h, 1, one+`/b "1"`)
	if n := o.Streams(); n != 1+1+2 {
		t.Errorf("%d streams", n)
	}
}

// The namespaces that a binding follows change during an outage.
func TestFollowThroughOutage(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	one, two := c.Namespace(t), c.Namespace(t)
	label := "follow=" + one
	c.Kubectl(t, "label", "namespace", one, label)
	secret(t, c, one, "a", "1")
	secret(t, c, two, "a", "1")
	proxy, kubeconfig := testenv.NewProxy(t, c, c.Kubeconfig)
	o := observe(t, kubeconfig)
	h := o.unlocked(bindings("follow", hook.Kubernetes{Kind: "Secret", Namespaces: hook.Namespaces{ByLabels: true, Labels: label}}))
	proxy.Cut()
	c.Kubectl(t, "label", "namespace", one, "follow-")
	c.Kubectl(t, "label", "namespace", two, label)
	proxy.Restore()
	o.expectAnyOrder("Deleted "+one+"/a", "Added "+two+"/a")
	o.sees(h, 0, two+"/a")
}
