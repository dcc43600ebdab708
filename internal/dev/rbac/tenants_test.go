package rbac

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Each account of tenants has Roles of its own: it writes, and is allowed to read what its hooks watch. The operator reads for all, and
// requests their tokens.
func TestRolesOfTenants(t *testing.T) {
	shop := &hook.Tenant{Name: "shop", ServiceAccount: hook.ServiceAccount{Namespace: "shop", Name: "hooks"}}
	bank := &hook.Tenant{Name: "bank", ServiceAccount: hook.ServiceAccount{Namespace: "bank", Name: "hooks"}}
	also := &hook.Tenant{Name: "also", ServiceAccount: shop.ServiceAccount}
	binding := func(name, kind string, namespaces ...string) hook.Kubernetes {
		return hook.Kubernetes{Binding: hook.Binding{Name: name}, Kind: kind, Namespaces: hook.Namespaces{Names: namespaces}}
	}
	labelled := binding("b", "Service")
	labelled.Namespaces = hook.Namespaces{ByLabels: true, Labels: "team=shop"}
	finalizing := binding("a", "Pod", "shop")
	finalizing.Finalizer, finalizing.Condition = "shop.example.com/a", "Ready"
	hooks := []*hook.Hook{
		{Name: "plain.sh", Kubernetes: []hook.Kubernetes{binding("a", "Secret", "shop")}},
		{Name: "shop/a.sh", Tenant: shop, Kubernetes: []hook.Kubernetes{finalizing, labelled}},
		{Name: "also/a.sh", Tenant: also, Kubernetes: []hook.Kubernetes{binding("a", "ConfigMap", "also")}},
		{Name: "bank/a.sh", Tenant: bank, Kubernetes: []hook.Kubernetes{binding("a", "Node")}},
	}
	roles, err := Plan(hooks, Known, Options{Namespace: "own", Uses: []Use{
		{Hook: "shop/a.sh", Namespace: "shop", Resource: "secrets", Verbs: []string{"create"}, Why: "shop/a.sh, operation Create"},
		{Hook: "plain.sh", Namespace: "shop", Resource: "secrets", Verbs: []string{"delete"}, Why: "plain.sh, operation Delete"},
		{Hook: "bank/a.sh", Namespace: "own", Resource: "configmaps", Verbs: []string{"create", "delete", "get", "patch"},
			Why: "Sync: its records"},
		{Hook: "bank/a.sh", Namespace: "own", Resource: "configmaps", Verbs: []string{"create", "delete", "get", "list", "patch", "watch"},
			Why: "Sync: an object"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range roles {
		for _, rule := range r.Rules {
			fmt.Fprintf(&b, "%s %s: %s %v %s\n", r.Account, r.Namespace, rule.Resource, rule.Names, strings.Join(rule.Verbs, ","))
		}
	}
	const want = `/ : namespaces [] get,list,watch
/ : nodes [] get,list,watch
/ : services [] get,list,watch
/ also: configmaps [] get,list,watch
/ bank: serviceaccounts/token [hooks] create
/ own: configmaps [] create,delete,get,patch
/ own: configmaps [shell-operator-finalizers] get,watch,patch,delete
/ shop: pods [] get,list,watch,patch
/ shop: secrets [] get,list,watch
/ shop: secrets [] delete
/ shop: serviceaccounts/token [hooks] create
bank/hooks : nodes [] get,list,watch
bank/hooks default: events [] create,patch
bank/hooks own: configmaps [] create,delete,get,list,patch,watch
shop/hooks : services [] get,list,watch
shop/hooks also: configmaps [] get,list,watch
shop/hooks shop: pods [] get,list,watch,patch
shop/hooks shop: pods/status [] patch
shop/hooks shop: secrets [] create
`
	if got := b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	text := YAML("x", roles, Names{Role: "r", ServiceAccount: "so", Namespace: "own"})
	for _, want := range []string{"name: \"r:shop:hooks\"\n  namespace: \"also\"\n", "  name: \"hooks\"\n  namespace: \"bank\"\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
