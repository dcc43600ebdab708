package debug

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/telemetry"
	"github.com/shell-operator/shell-operator/internal/tenant"
)

// TenantsTopic reports tenants whose account has no token, or whose token cannot be renewed. Status returns all that have hooks.
func TenantsTopic(hooks *Hooks, status func() []tenant.Status, names telemetry.Names) Topic {
	t := tenantsTopic{hooks, status}
	return Topic{
		Reasons: t.reasons, Troubles: t.troubles,
		Metrics: []prometheus.Collector{names.Gauge("tenant_ready", func(set telemetry.Set) {
			ready := map[string]int{} // a tenant has two accounts while a run of a hook lasts that a reload has given another one
			for _, s := range status() {
				if before, twice := ready[s.Name]; s.Ready && (!twice || before == 1) {
					ready[s.Name] = 1
				} else {
					ready[s.Name] = 0
				}
			}
			for name, n := range ready {
				set(n, name)
			}
		})},
	}
}

type tenantsTopic struct {
	hooks  *Hooks
	status func() []tenant.Status
}

// waiting is what a tenant waits for; empty if it has a token that can be renewed.
func waiting(s *tenant.Status) (problem, hint string) {
	switch {
	case s.Problem == "":
		return "", ""
	case s.Missing:
		hint = fmt.Sprintf("create the ServiceAccount %s; without it, 'finalizers remove' and 'uninstall' remove the finalizers of "+
			"its hooks with "+
			"the account of the operator", s.ServiceAccount)
	}
	if s.Ready {
		return "the token of its account " + s.ServiceAccount.String() + " cannot be renewed, its hooks wait when it expires: " +
			oneLine(s.Problem), hint
	}
	return "its hooks wait for a token of the account " + s.ServiceAccount.String() + ": " + oneLine(s.Problem), hint
}

func (t tenantsTopic) reasons(h *hook.Hook, _ time.Time) []Reason {
	if h.Tenant == nil {
		return nil
	}
	for _, s := range t.status() {
		if problem, hint := waiting(&s); problem != "" && s.Name == h.Tenant.Name && s.ServiceAccount == h.Tenant.ServiceAccount {
			return []Reason{{ByTenant, !s.Ready, fmt.Sprintf("tenant %q: %s", s.Name, problem), hint}}
		}
	}
	return nil
}

func (t tenantsTopic) troubles() (all []Trouble) {
	for _, s := range t.status() {
		problem, hint := waiting(&s)
		if problem == "" {
			continue
		}
		x := Trouble{Kind: InTenant, Subject: fmt.Sprintf("tenant %q", s.Name), Problem: problem, Hint: hint}
		for _, h := range t.hooks.Active() {
			if h.Tenant != nil && h.Tenant.Name == s.Name {
				x.Hooks = append(x.Hooks, h.Name)
			}
		}
		all = append(all, x)
	}
	return all
}
