package debug

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/telemetry"
	"github.com/shell-operator/shell-operator/internal/tenant"
)

// A tenant without a token is a trouble of its hooks, which blocks them; one whose token cannot be renewed is one, too.
func TestTenantsTopic(t *testing.T) {
	of := func(name string) *hook.Tenant {
		return &hook.Tenant{Name: name, Folder: name + "/", ServiceAccount: hook.ServiceAccount{Namespace: name, Name: "hooks"}}
	}
	shop, paint, well := of("shop"), of("paint"), of("well")
	hooks := []*hook.Hook{{Name: "a.sh"}, {Name: "paint/a.sh", Tenant: paint}, {Name: "shop/a.sh", Tenant: shop},
		{Name: "shop/b.sh", Tenant: shop}, {Name: "well/a.sh", Tenant: well}}
	topic := TenantsTopic(&Hooks{Active: func() []*hook.Hook { return hooks }}, func() []tenant.Status {
		return []tenant.Status{{Tenant: paint, Ready: true, Problem: "no\nanswer"}, {Tenant: shop, Problem: "not found", Missing: true},
			{Tenant: well, Ready: true}}
	}, telemetry.Names("x_"))
	var lines []string
	for _, x := range topic.Troubles() {
		lines = append(lines, strings.Join(x.Hooks, ",")+" "+x.String())
	}
	for _, h := range hooks {
		for _, r := range topic.Reasons(h, time.Now()) {
			lines = append(lines, map[bool]string{true: "blocks "}[r.Blocks]+h.Name+" "+r.Text)
		}
	}
	const renewed = `paint/a.sh tenant "paint": the token of its account paint/hooks cannot be renewed, its hooks wait when it ` +
		`expires: no answer`
	want := renewed + `
shop/a.sh,shop/b.sh tenant "shop": its hooks wait for a token of the account shop/hooks: not found: create the ServiceAccount ` +
		`shop/hooks; without it, 'finalizers remove' and 'uninstall' remove the finalizers of its hooks with the account of the operator
` + renewed + `
blocks shop/a.sh tenant "shop": its hooks wait for a token of the account shop/hooks: not found
blocks shop/b.sh tenant "shop": its hooks wait for a token of the account shop/hooks: not found`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A tenant whose account has changed has two of them while a run with the former one lasts, and one series.
func TestTenantWithTwoAccounts(t *testing.T) {
	of := func(name, account string, ready bool) tenant.Status {
		return tenant.Status{Ready: ready, Tenant: &hook.Tenant{Name: name, ServiceAccount: hook.ServiceAccount{Namespace: name, Name: account}}}
	}
	topic := TenantsTopic(&Hooks{}, func() []tenant.Status {
		return []tenant.Status{of("paint", "a", false), of("paint", "b", true), of("shop", "a", true), of("shop", "b", true)}
	}, telemetry.Names("x_"))
	registry := prometheus.NewRegistry()
	registry.MustRegister(topic.Metrics...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range families[0].GetMetric() {
		got = append(got, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", m.GetGauge().GetValue()))
	}
	if want := "paint 0, shop 1"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// The status, why and runs show name the tenant of a hook.
func TestTenantsAreNamed(t *testing.T) {
	now := time.Now()
	s := Status{Hooks: []HookStatus{{Name: "a.sh", State: "ready"}, {Name: "shop/a.sh", Tenant: "shop", State: "ready"},
		{Name: "shop/b.sh", Tenant: "shop", State: "ready"}, {Name: "bank/a.sh", Tenant: "bank", State: "ready"}}}
	e := Explanation{Hook: "shop/a.sh", Tenant: "shop", Verdict: IsBlocked}
	for want, got := range map[string]string{
		"hooks of tenants: 1 bank, 2 shop\n": s.Text(now), "shop/a.sh of tenant shop: blocked\n": e.text(now),
		"tenant:   shop\n": runText(&history.Run{Hook: "shop/a.sh", Tenant: "shop"}),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}
