package rbac

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// needs are those of each account; the zero one is the operator's.
type needs map[hook.ServiceAccount][]need

func (n needs) ofOperator(all ...need) {
	operator := hook.ServiceAccount{}
	n[operator] = append(n[operator], all...)
}

// of adds needs of a hook: to those of the account of its tenant, if it has one.
func (n needs) of(h *hook.Hook, all ...need) {
	if h.Tenant == nil {
		n.ofOperator(all...)
		return
	}
	account := h.Tenant.ServiceAccount
	for _, one := range all {
		if !slices.ContainsFunc(one.why, func(why string) bool { return strings.HasSuffix(why, byLabels) }) {
			n[account] = append(n[account], one)
		}
	}
}

// withoutWrites are needs of the operator for a hook of a tenant. It may remove finalizers: that is the way out when the account is gone.
func withoutWrites(all []need) []need {
	return slices.DeleteFunc(slices.Clone(all), func(n need) bool { return n.verbs == "patch" })
}

// roles are those of each account, the operator's first.
func (n needs) roles() (all []Role) {
	accounts := slices.SortedFunc(maps.Keys(n), func(a, b hook.ServiceAccount) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, account := range accounts {
		for _, r := range roles(withoutCovered(n[account])) {
			r.Account = account
			all = append(all, r)
		}
	}
	return all
}

// tokens is what the tokens of tenants need: the API server checks the name.
func tokens(hooks []*hook.Hook) (all []need) {
	for _, h := range hooks {
		if h.Tenant != nil {
			account := h.Tenant.ServiceAccount
			all = append(all, need{account.Namespace, "", "serviceaccounts/token", account.Name, "create",
				[]string{"tokens of tenant " + h.Tenant.Name}})
		}
	}
	return all
}
