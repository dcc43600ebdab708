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

// Until the Synchronization, namespaces come and go in the set only.
func TestFollowWhileLocked(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	namespaces := someNamespaces(t, c, 2)
	one, two := namespaces[0], namespaces[1]
	secret(t, c, one, "a", "1")
	secret(t, c, two, "a", "1")
	label := "follow=" + one
	o := observe(t, c.Kubeconfig)
	h := bindings("follow", hook.Kubernetes{Kind: "Secret", Namespaces: hook.Namespaces{ByLabels: true, Labels: label}})
	witness := bindings("witness", hook.Kubernetes{Kind: "Namespace", Labels: label})
	o.enable(h)
	o.unlocked(witness)
	o.sees(h, 0)
	c.Kubectl(t, "label", "namespace", one, label)
	o.expect("Added " + one)
	o.Synchronize(h, 0)
	c.Kubectl(t, "label", "namespace", two, label)
	o.expect("Added " + two)
	// The binding may see the objects of both now or in a moment: what the Synchronization did not show comes.
	seen := contents(t, o.Synchronize(h, 0))
	o.Unlock(h, 0)
	secret(t, c, one, "b", "1")
	var events []string
	for last := ""; last != "Added "+one+"/b"; {
		last = o.next()
		events = append(events, last)
	}
	secret(t, c, two, "b", "1")
	for last := ""; last != "Added "+two+"/b"; {
		last = o.next()
		events = append(events, last)
	}
	for _, ns := range []string{one, two} {
		n := 0
		for _, s := range append(events, seen...) {
			if s == "Added "+ns+"/a" || s == ns+"/a" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s/a was delivered %d times: the list was %q, the events were %q", ns, n, seen, events)
		}
	}
	o.sees(h, 0, one+"/a", one+"/b", two+"/a", two+"/b")
}

func TestFollowAllNamespaces(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	o := observe(t, c.Kubeconfig)
	ns := c.Namespace(t)
	group := ns + ".example.com"
	crd(t, c, group, "Thing", "Namespaced", "v1")
	custom(t, c, group+"/v1", "Thing", ns, "a")
	// The empty selector selects all.
	h := o.unlocked(bindings("all", hook.Kubernetes{APIVersion: group + "/v1", Kind: "Thing", Namespaces: hook.Namespaces{ByLabels: true}}))
	o.sees(h, 0, ns+"/a")
	later := c.Namespace(t)
	custom(t, c, group+"/v1", "Thing", later, "b")
	o.expect("Added " + later + "/b")
}
