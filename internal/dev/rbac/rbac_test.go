package rbac

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
)

func TestKnown(t *testing.T) {
	for _, test := range []struct{ apiVersion, kind, want string }{
		{"", "Pod", "/pods"},
		{"v1", "PO", "/pods"},
		{"", "deploy", "apps/deployments"},
		{"apps/v1", "Deployment", "apps/deployments"},
		{"", "Ingress", "networking.k8s.io/ingresses"},
		{"", "Event", "/events"},
		{"events.k8s.io/v1", "Event", "events.k8s.io/events"},
		{"", "Node", "/nodes, cluster"},
		{"", "crds", "apiextensions.k8s.io/customresourcedefinitions, cluster"},
		{"example.com/v1", "Pod", "example.com/pods, guessed"},
		{"example.com/v1", "Policy", "example.com/policies, guessed"},
		{"example.com/v1", "widgets", "example.com/widgets, guessed"},
		{"example.com/v1", "widget", "example.com/widgets, guessed"},
		{"", "Widget", "error: add apiVersion"},
		{"v1", "Widget", "error: add apiVersion"},
	} {
		k, guessed, err := Known(test.apiVersion, test.kind)
		got := k.Group + "/" + k.Resource
		switch {
		case err != nil && strings.Contains(err.Error(), "add apiVersion"):
			got = "error: add apiVersion"
		case guessed:
			got += ", guessed"
		case !k.Namespaced:
			got += ", cluster"
		}
		if got != test.want {
			t.Errorf("%q %q: %s, not %s (%v)", test.apiVersion, test.kind, got, test.want, err)
		}
	}
}

// text shows roles in one line for each rule.
func text(roles []Role) string {
	var b strings.Builder
	for _, r := range roles {
		for _, rule := range r.Rules {
			fmt.Fprintf(&b, "%s: %s %v %s (%s)\n", r.Namespace, rule.Resource, rule.Names, strings.Join(rule.Verbs, ","),
				strings.Join(rule.Why, "; "))
		}
	}
	return b.String()
}

// A wider right covers narrower ones, in whatever order they come, and keeps their reasons.
func TestWiderCoversNarrower(t *testing.T) {
	in := func(namespaces ...string) hook.Namespaces { return hook.Namespaces{Names: namespaces} }
	named := func(name string, ns hook.Namespaces, names ...string) hook.Kubernetes {
		return hook.Kubernetes{Binding: hook.Binding{Name: name}, Kind: "Pod", Namespaces: ns, Names: names}
	}
	finalizing := func(k hook.Kubernetes) hook.Kubernetes { k.Finalizer = "example.com/f"; return k }
	for _, test := range []struct {
		bindings []hook.Kubernetes
		want     string
	}{
		{[]hook.Kubernetes{named("a", in("x"), "one"), named("b", in("x"), "two")},
			"x: pods [one two] get,list,watch (h, kubernetes \"a\"; h, kubernetes \"b\")\n"},
		{[]hook.Kubernetes{named("a", in("x"), "one"), named("b", in("x", "y"))},
			"x: pods [] get,list,watch (h, kubernetes \"a\"; h, kubernetes \"b\")\ny: pods [] get,list,watch (h, kubernetes \"b\")\n"},
		{[]hook.Kubernetes{named("a", in()), named("b", in("x"), "one")},
			": pods [] get,list,watch (h, kubernetes \"a\"; h, kubernetes \"b\")\n"},
		{[]hook.Kubernetes{finalizing(named("a", in("x"), "one"))},
			"own: configmaps [shell-operator-finalizers] get,watch,patch,delete (record of the finalizers of bindings)\n" +
				"own: configmaps [] create (record of the finalizers of bindings; creating cannot be limited to a name)\n" +
				"x: pods [] get,list,watch,patch (h, kubernetes \"a\"; h, kubernetes \"a\" adds and removes the finalizer example.com/f)\n"},
		{[]hook.Kubernetes{named("b", in("x")), named("a", in(), "one")},
			": pods [one] get,list,watch (h, kubernetes \"a\")\nx: pods [] get,list,watch (h, kubernetes \"b\")\n"},
	} {
		roles, err := Plan([]*hook.Hook{{Name: "h", Kubernetes: test.bindings}}, Known, Options{Namespace: "own"})
		if got := text(roles); err != nil || got != test.want {
			t.Errorf("got\n%swant\n%s(%v)", got, test.want, err)
		}
	}
}

// A hook with Sync needs the records of its sets, which are in the operator's namespace.
func TestSets(t *testing.T) {
	const why = "h, records of the sets of Sync; add the kinds of their objects"
	for name, test := range map[string]struct {
		hook hook.Hook
		want string
	}{
		"startup": {hook.Hook{Name: "h"}, "own: configmaps [] create,delete,get,list,patch (" + why + ")\n"},
		"owners": {
			hook.Hook{Name: "h",
				Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "a"}, Kind: "Pod", Condition: "Ready",
					Namespaces: hook.Namespaces{Names: []string{"x"}}}}},
			"own: configmaps [] create,delete,get,list,patch (" + why + ")\n" +
				"x: pods [] get,list,watch (h, kubernetes \"a\")\nx: pods/finalizers [] update (h, objects of sets block the deletion of " +
				"their owner)\nx: pods/status [] patch (h, kubernetes \"a\" reports its runs in the condition Ready)\n",
		},
	} {
		roles, err := Plan([]*hook.Hook{&test.hook}, Known, Options{Namespace: "own", Syncs: func(*hook.Hook) bool { return true }})
		if got := text(roles); err != nil || got != test.want {
			t.Errorf("%s: got\n%swant\n%s(%v)", name, got, test.want, err)
		}
	}
}

func TestConditions(t *testing.T) {
	roles, err := Plan([]*hook.Hook{{Name: "h", Kubernetes: []hook.Kubernetes{{
		Binding: hook.Binding{Name: "a"}, Kind: "Pod", Namespaces: hook.Namespaces{Names: []string{"x"}}, Condition: "Ready",
		Retry: &hook.Retry{Limit: new(3)},
	}}}}, Known, Options{Events: true, Namespace: "ops"})
	want := "x: pods [] get,list,watch (h, kubernetes \"a\")\nx: pods/status [] patch (h, kubernetes \"a\" reports its runs in the " +
		"condition Ready)\n"
	want = "ops: events [] create,patch (Events that report failing hooks)\n" + want +
		"x: events [] create,patch (h, kubernetes \"a\": Events on objects without an attempt left)\n"
	if got := text(roles); err != nil || got != want {
		t.Errorf("got\n%s%v", got, err)
	}
}

func TestLease(t *testing.T) {
	sharing, err := Plan(nil, Known, Options{Namespace: "ops", Lease: "leader", Shards: 2})
	shards := "ops: leases [] create,list,watch (shards; none can be limited to a name)\n" +
		"ops: leases [leader leader-shard-0 leader-shard-1] get,update,delete (shards; keep these names while there are replicas with a " +
		"larger number of shards)\n"
	if got := text(sharing); err != nil || got != shards {
		t.Errorf("with shards: %v\n%s", err, got)
	}
	roles, err := Plan(nil, Known, Options{Namespace: "ops", Lease: "leader"})
	want := "ops: leases [leader] get,watch,update (leader election)\nops: leases [] create,list (leader election; neither can be limited " +
		"to a name, and a leader checks that no shard has an owner)\n"
	if got := text(roles); err != nil || got != want {
		t.Errorf("got\n%s%v", got, err)
	}
}

func TestAdvice(t *testing.T) {
	for _, test := range []struct{ apiVersion, kind, want string }{
		{"v1", "Pod", ""}, {"", "po", ""}, {"apps/v1", "deployments", ""}, {"", "Widget", ""}, {"example.com/v1", "Pod", ""},
		{"example.com/v1", "Podd", ""},
		{"v1", "Deployment", "Deployment is not in v1: it is served as apps/v1"},
		{"extensions/v1beta1", "Ingress", "Ingress is not in extensions/v1beta1: it is served as networking.k8s.io/v1"},
		{"apps/v1", "Pod", "Pod is not in apps/v1: it is served as v1"},
		{"", "Podd", `"Podd" is not built into Kubernetes: did you mean Pod?`},
		{"v1", "Podd", `"Podd" is not built into Kubernetes: did you mean Pod?`},
	} {
		if got := Advice(test.apiVersion, test.kind); got != test.want {
			t.Errorf("%s %s: got %q, want %q", test.apiVersion, test.kind, got, test.want)
		}
	}
}
