package watch

import (
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// A binding that moves takes everything along: nobody lists again, and the new hook gets what comes.
func TestMove(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	secret(t, c, ns, "a", "1")
	o := observe(t, c.Kubeconfig)
	watched := hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces(ns), JQFilter: ".metadata.labels.v"}
	before := bindings("hook", watched, watched)
	o.enable(before)
	o.Synchronize(before, 0)
	o.Unlock(before, 0)
	o.Synchronize(before, 1)
	secret(t, c, ns, "a", "2") // the second binding holds it back
	o.expect("Modified " + ns + `/a "2"`)

	after := bindings("hook", watched, watched, watched)
	if !o.Move(before, 0, after, 2) || !o.Move(before, 1, after, 1) || o.Move(before, 0, after, 0) {
		t.Error("Move does not tell what there was to move")
	}
	o.sees(before, 0)
	o.sees(after, 2, ns+`/a "2"`)
	from := func(index int, what string) {
		t.Helper()
		ev := receive(t, o.events, "event")
		if got := ev.Watch.String() + " " + tell(t, ev.Object); got != what || ev.Hook != after || ev.Index != index {
			t.Errorf("got %s for binding %d of %p, want %s for %d of %p", got, ev.Index, ev.Hook, what, index, after)
		}
	}
	o.Unlock(after, 1)
	from(1, "Modified "+ns+`/a "2"`)

	requests := len(o.requests)
	if n := o.Streams(); n != 1 {
		t.Errorf("%d streams", n)
	}
	moved := bindings("hook", watched)
	o.Disable(after, 1)
	o.Move(after, 2, moved, 0)
	o.enable(moved) // it is there already
	if n := len(o.requests) - requests; n != 0 {
		t.Errorf("%d requests for a binding that has moved", n)
	}
	secret(t, c, ns, "b", "1")
	after = moved
	from(0, "Added "+ns+`/b "1"`)
}

// Nothing comes of a disabled binding, and its streams end when nobody else needs them.
func TestDisable(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	all := someNamespaces(t, c, 2)
	secret(t, c, all[0], "a", "1")
	for _, ns := range all {
		c.Kubectl(t, "label", "namespace", ns, "disable="+all[0])
	}
	o := observe(t, c.Kubeconfig)
	gone := o.unlocked(bindings("gone",
		hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces(all...)},
		hook.Kubernetes{Kind: "Secret", Namespaces: hook.Namespaces{Labels: "disable=" + all[0], ByLabels: true}},
	))
	if n := o.Streams(); n != 3 { // the namespaces, and the Secrets of two that both bindings share
		t.Errorf("%d streams", n)
	}
	o.Disable(gone, 0)
	o.Disable(gone, 0)
	if n := o.Streams(); n != 3 {
		t.Errorf("%d streams while another binding needs them", n)
	}
	o.Disable(gone, 1)
	if n := o.Streams(); n != 0 {
		t.Errorf("%d streams that nobody needs", n)
	}
	o.sees(gone, 0)
	o.sees(gone, 1)

	// The same again, by others, is as new.
	left := o.unlocked(bindings("left", hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces(all[0])}))
	secret(t, c, all[0], "a", "2")
	if ev := receive(t, o.events, "event"); ev.Hook != left || ev.Watch != event.Modified {
		t.Errorf("event %s for hook %q", ev.Watch, ev.Hook.Name)
	}
	o.sees(left, 0, all[0]+"/a")
}
