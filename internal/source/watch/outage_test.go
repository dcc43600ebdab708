package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestOutage(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	for _, name := range []string{"changed", "touched", "deleted", "again", "same"} {
		secret(t, c, ns, name, "1")
	}
	proxy, kubeconfig := testenv.NewProxy(t, c, c.Kubeconfig)
	o := observe(t, kubeconfig)
	b := hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces(ns), JQFilter: ".metadata.labels.v"}
	h := o.unlocked(bindings("outage", b))
	locked := bindings("locked", b)
	o.enable(locked)
	before := contents(t, o.Snapshot(h, 0))

	proxy.Cut()
	secret(t, c, ns, "changed", "2")
	secret(t, c, ns, "changed", "3")
	c.Kubectl(t, "-n", ns, "annotate", "secret", "touched", "by=us")
	c.Kubectl(t, "-n", ns, "delete", "secret", "deleted", "again")
	secret(t, c, ns, "again", "1")
	secret(t, c, ns, "new", "1")
	secret(t, c, ns, "never", "1")
	c.Kubectl(t, "-n", ns, "delete", "secret", "never")
	o.sees(h, 0, before...) // what was there last
	proxy.Restore()
	want := []string{
		"Deleted " + ns + `/deleted "1"`,
		"Deleted " + ns + `/again "1"`, "Added " + ns + `/again "1"`,
		"Modified " + ns + `/changed "3"`,
		"Added " + ns + `/new "1"`,
	}
	secret(t, c, ns, "sentinel", "1")
	sentinel := "Added " + ns + `/sentinel "1"`

	check := func(what string) {
		t.Helper()
		var got []string
		for last := ""; last != sentinel; {
			last = o.next()
			// States in between may be lost, and need not be.
			if last != "Modified "+ns+`/changed "2"` && !strings.Contains(last, "/never ") {
				got = append(got, last)
			}
		}
		if len(got) != len(want)+1 {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
		at := map[string]int{}
		for i, ev := range got {
			at[ev] = i + 1
		}
		for _, ev := range want {
			if at[ev] == 0 {
				t.Errorf("%s: no event %s in %q", what, ev, got)
			}
		}
		if at[want[1]] > at[want[2]] {
			t.Errorf("%s: added before it was deleted: %q", what, got)
		}
	}
	check("unlocked")
	now := []string{ns + `/again "1"`, ns + `/changed "3"`, ns + `/new "1"`, ns + `/same "1"`, ns + `/sentinel "1"`, ns + `/touched "1"`}
	o.sees(h, 0, now...)
	// What was held back through the outage is the same.
	o.Unlock(locked, 0)
	check("locked")
	o.sees(locked, 0, now...)
	for _, text := range []string{"the API server cannot be reached", "Watch recovered"} {
		if !strings.Contains(o.log(), text) {
			t.Errorf("no %q in the log:\n%s", text, o.log())
		}
	}
}

// The server itself ends and comes back, without the memory that it had of recent changes.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	c := testenv.Own(t)
	secret(t, c, "default", "a", "1")
	secret(t, c, "default", "b", "1")
	o := observe(t, c.Kubeconfig)
	h := o.unlocked(bindings("restart", hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces("default")}))
	c.Kill(t, "kube-apiserver")
	o.says("the API server cannot be reached")
	o.sees(h, 0, "default/a", "default/b")
	// Who stops while the server is away does not wait for it.
	t.Run("stop", func(t *testing.T) {
		o := observe(t, c.Kubeconfig)
		stuck, _ := o.begin(h)
		test.Receive(t, stuck, "trouble")
	})
	c.Restart(t, "kube-apiserver")
	c.Kubectl(t, "delete", "secret", "a")
	secret(t, c, "default", "b", "2")
	o.expect("Deleted default/a", "Modified default/b")
	o.says("Watch recovered")
	o.sees(h, 0, "default/b")
}

// An API server that is away when a binding is enabled delays it.
func TestEnableInOutage(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	secret(t, c, ns, "a", "1")
	proxy, kubeconfig := testenv.NewProxy(t, c, c.Kubeconfig)
	o := observe(t, kubeconfig)
	proxy.Cut()
	h := bindings("outage", hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces(ns)})
	stuck, done := o.begin(h)
	test.Receive(t, stuck, "trouble")
	proxy.Restore()
	if err := test.Receive(t, done, "end of Enable"); err != nil {
		t.Fatal(err)
	}
	o.sees(h, 0, ns+"/a")
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

// resynchronizationPeriod relists, and reports no unchanged objects.
func TestResyncRelists(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	secret(t, c, ns, "a", "1")
	o := observe(t, c.Kubeconfig)
	often := hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces(ns), Resync: 100 * time.Millisecond}
	never := often
	never.Resync = 0
	h := o.unlocked(bindings("resync", never, often))
	for lists := 0; lists < 4; {
		if request := test.Receive(t, o.requests, "request"); strings.Contains(request, "/secrets?") && strings.Contains(request, "limit=") {
			lists++
		}
	}
	secret(t, c, ns, "b", "1")
	o.expectAnyOrder("Added "+ns+"/b", "Added "+ns+"/b")
	o.sees(h, 0, ns+"/a", ns+"/b")
	if n := o.Streams(); n != 1 {
		t.Errorf("%d streams", n)
	}
}
