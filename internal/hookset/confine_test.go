package hookset

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// confined parses a configuration as that of a hook in the folder of a tenant, or of none.
func confined(t *testing.T, name, config string) (hook.Hook, error) {
	t.Helper()
	tenants := []*hook.Tenant{
		{Name: "shop", Folder: "shop/", Webhooks: []string{"shop", "shop-test"}}, {Name: "bank", Folder: "bank/"},
	}
	h, _, err := wire.ParseConfig(name, "/hooks/"+name, []byte("configVersion: v1\n"+config), wire.ConfigOptions{
		JQ: jq.NewCompiler(jq.Options{}), CheckCrontab: checkCrontab,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Tenant = hook.TenantOf(tenants, name)
	return h, confine(&h, tenants)
}

// Each tenant has its queues for itself.
func TestQueuesOfTenants(t *testing.T) {
	const config = `
onStartup: 1
schedule: [{crontab: "* * * * *"}, {crontab: "* * * * *", queue: slow}]
kubernetes: [{kind: Pod, name: a}, {kind: Pod, name: b, queue: {name: keyed, key: object}}]`
	for name, want := range map[string]string{
		"shop/a.sh": "shop/main shop/main shop/slow shop/main shop/keyed", "a.sh": "main main slow main keyed",
	} {
		h, err := confined(t, name, config)
		var queues []string
		for _, b := range h.Bindings() {
			queues = append(queues, b.Queue)
		}
		if got := strings.Join(queues, " "); got != want || err != nil {
			t.Errorf("%s: %s %v, want %s", name, got, err, want)
		}
	}
}

// A selector and rules that match everything are limited to the namespaces of the tenant.
func TestWebhooksOfTenants(t *testing.T) {
	h, err := confined(t, "shop/a.sh", `
kubernetesValidating:
- name: all.example.com
  namespace: {labelSelector: {matchLabels: {a: b}}}
  rules:
  - {apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}
  - {apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE], scope: "*"}
kubernetesMutating:
- name: every.example.com
  rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]`)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range append(h.Validating, h.Mutating...) {
		last := b.NamespaceLabels.MatchExpressions[len(b.NamespaceLabels.MatchExpressions)-1]
		if last.Key != "kubernetes.io/metadata.name" || last.Operator != "In" || strings.Join(last.Values, " ") != "shop shop-test" {
			t.Errorf("%s selects %+v", b.Name, b.NamespaceLabels)
		}
		for _, r := range b.Rules {
			if r.Scope != "Namespaced" {
				t.Errorf("%s has the scope %q", b.Name, r.Scope)
			}
		}
	}
	if h.Validating[0].NamespaceLabels.MatchLabels["a"] != "b" {
		t.Errorf("the selector of the hook is gone: %+v", h.Validating[0].NamespaceLabels)
	}
}

func TestForbiddenToTenants(t *testing.T) {
	const webhook = "kubernetesValidating: [{name: a.example.com, rules: [{apiGroups: [\"\"], apiVersions: [v1], resources: [pods], " +
		"operations: [CREATE]}]}]"
	const cluster = `kubernetesMutating: [{name: a.example.com, rules: [{apiGroups: [""], apiVersions: [v1], resources: [nodes], ` +
		`operations: ["*"], scope: Cluster}]}]`
	const conversion = "kubernetesCustomResourceConversion: [{name: c, crdName: crontabs.example.com, conversions: [{fromVersion: v1, " +
		"toVersion: v2}]}]"
	http := func(path string) string { return "http: [{name: a, method: GET, path: \"" + path + "\"}]" }
	for _, c := range []struct{ name, config, want string }{
		{"bank/a.sh", webhook, `tenant "bank" has no namespaces for webhooks`},
		{"a.sh", webhook, ""},
		{"shop/a.sh", cluster, `rules[0].scope (binding "a.example.com") is Cluster`},
		{"a.sh", cluster, ""},
		{"shop/a.sh", conversion, "converts objects of all namespaces"},
		{"shop/a.sh", http("/orders"), `"/orders" is not below /shop`},
		{"shop/a.sh", http("/"), `"/" is not below /shop`},
		{"shop/a.sh", http("/{shop}/orders"), `is not below /shop`},
		{"shop/a.sh", http("/shopping"), `is not below /shop`},
		{"shop/a.sh", http("/shop/orders/{name}"), ""},
		{"a.sh", http("/shop/orders"), ""},
		{"a.sh", "schedule: [{crontab: \"* * * * *\", queue: shop/main}]",
			`schedule[0].queue (binding "schedule") "shop/main" is a queue of tenant "shop"`},
		{"a.sh", "schedule: [{crontab: \"* * * * *\", queue: shops/main}, {crontab: \"* * * * *\", queue: shop}]", ""},
		{"bank/a.sh", "schedule: [{crontab: \"* * * * *\", queue: shop/main}]", ""},
	} {
		_, err := confined(t, c.name, c.config)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v, want %q", c.name, c.config, err, c.want)
		}
	}
}
