package watch

import (
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// A muted binding sends no events, whatever it has held back, and its snapshot stays current.
func TestMute(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	o := observe(t, c.Kubeconfig)
	watched := hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces(ns)}
	muted, other := o.unlocked(bindings("muted", watched)), o.unlocked(bindings("other", watched))
	holds := bindings("holds", watched)
	o.enable(holds)
	secret(t, c, ns, "a", "1")
	for range 2 {
		test.Receive(t, o.events, "event")
	}
	o.Mute(muted)
	o.Mute(holds)
	o.Unlock(holds, 0)
	secret(t, c, ns, "b", "1")
	if ev := test.Receive(t, o.events, "event"); ev.Hook != other || ev.Object.Name != "b" {
		t.Errorf("event of %s for %s", ev.Hook.Name, ev.Object.Name)
	}
	o.sees(muted, 0, ns+"/a", ns+"/b")

	// Enabled again it is as new, and its snapshot has never been empty.
	enabled := make(chan struct{})
	go func() {
		defer close(enabled)
		o.enable(muted)
	}()
	for again := true; again; {
		select {
		case <-enabled:
			again = false
		default:
		}
		if n := o.Snapshot(muted, 0).Len(); n != 2 {
			t.Fatalf("%d objects", n)
		}
	}
	secret(t, c, ns, "c", "1")
	test.Receive(t, o.events, "event of the other hook")
	o.Unlock(muted, 0)
	if ev := test.Receive(t, o.events, "event"); ev.Hook != muted || ev.Object.Name != "c" {
		t.Errorf("event of %s for %s", ev.Hook.Name, ev.Object.Name)
	}
}

// Mute does not wait for a disk on which an event is being stored. Neither that event nor one behind it is delivered.
func TestMuteDuringDelivery(t *testing.T) {
	entered, gate := make(chan struct{}, 10), make(chan struct{})
	sink := &gated{events: make(chan event.Event, 10), keep: func() { entered <- struct{}{}; <-gate }}
	f, all := share(t, []string{""}, []*gated{sink})
	add(t, f, 0)
	test.Receive(t, entered, "call of Keep")
	muted := make(chan struct{})
	go func() {
		all[0].mute()
		close(muted)
	}()
	test.Receive(t, muted, "return of mute")
	add(t, f, 1)
	close(gate)
	f.Wait()
	if len(sink.events) > 0 || len(entered) > 0 {
		t.Errorf("%d events, %d of them stored after mute", len(sink.events), len(entered))
	}
	if n := all[0].snapshot().Len(); n != 2 {
		t.Errorf("%d objects", n)
	}
}

// A disabled binding has no effects, and its streams end when no other binding uses them.
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
		t.Errorf("%d unused streams", n)
	}
	o.sees(gone, 0)
	o.sees(gone, 1)

	// The same again, by others, is as new.
	left := o.unlocked(bindings("left", hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces(all[0])}))
	secret(t, c, all[0], "a", "2")
	if ev := test.Receive(t, o.events, "event"); ev.Hook != left || ev.Watch != event.Modified {
		t.Errorf("event %s for hook %q", ev.Watch, ev.Hook.Name)
	}
	o.sees(left, 0, all[0]+"/a")
}
