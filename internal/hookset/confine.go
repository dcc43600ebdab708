package hookset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// namespaceName is the label that the API server sets on each namespace.
const namespaceName = "kubernetes.io/metadata.name"

// confine gives a hook the names and the webhooks of its tenant. The error is a *wire.ConfigError with what the tenant may not have.
func confine(h *hook.Hook, tenants []*hook.Tenant) error {
	if h.Tenant == nil {
		return refuse(h, foreignQueues(h, tenants))
	}
	var violations []wire.Violation
	for i := range h.Schedules {
		h.Schedules[i].Queue = h.Tenant.Own(h.Schedules[i].Queue)
	}
	for i := range h.Kubernetes {
		h.Kubernetes[i].Queue = h.Tenant.Own(h.Kubernetes[i].Queue)
	}
	violations = append(violations, confineWebhooks(h.Tenant, "kubernetesValidating", h.Validating)...)
	violations = append(violations, confineWebhooks(h.Tenant, "kubernetesMutating", h.Mutating)...)
	for i := range h.Conversions {
		violations = append(violations, wire.Violation{
			Path: fmt.Sprintf("kubernetesCustomResourceConversion[%d]", i), Binding: h.Conversions[i].Name,
			Problem: fmt.Sprintf("converts objects of all namespaces, and the hook belongs to tenant %q", h.Tenant.Name),
			Hint:    "move the binding to a hook outside of the folders of tenants",
		})
	}
	for i := range h.HTTP {
		b := &h.HTTP[i]
		if len(b.Segments) == 0 || b.Segments[0].Variable || b.Segments[0].Text != h.Tenant.Name {
			violations = append(violations, wire.Violation{
				Path: fmt.Sprintf("http[%d].path", i), Binding: b.Name,
				Problem: fmt.Sprintf("%q is not below /%s, and the hook belongs to tenant %q", b.Path, h.Tenant.Name, h.Tenant.Name),
				Hint:    fmt.Sprintf("write /%s%s", h.Tenant.Name, strings.TrimSuffix(b.Path, "/")),
			})
		}
	}
	return refuse(h, violations)
}

func refuse(h *hook.Hook, violations []wire.Violation) error {
	if len(violations) == 0 {
		return nil
	}
	return &wire.ConfigError{Hook: h.Name, Violations: violations}
}

// foreignQueues finds the queues of a hook without a tenant whose names are those of a tenant.
func foreignQueues(h *hook.Hook, tenants []*hook.Tenant) (violations []wire.Violation) {
	for a, b := range h.Bindings() {
		name, _, found := strings.Cut(b.Queue, "/")
		if found && slices.ContainsFunc(tenants, func(t *hook.Tenant) bool { return t.Name == name }) {
			violations = append(violations, wire.Violation{
				Path: fmt.Sprintf("%s[%d].queue", a.Kind, a.Index), Binding: b.Name,
				Problem: fmt.Sprintf("%q is a queue of tenant %q, and the hook is not in its folder", b.Queue, name),
				Hint:    fmt.Sprintf("use a name that does not begin with %s/", name),
			})
		}
	}
	return violations
}

// confineWebhooks limits webhooks to the namespaces of a tenant. The label selector of a hook may match all namespaces, and rules may match
// objects that are in none.
func confineWebhooks(t *hook.Tenant, key string, bindings []hook.Admission) (violations []wire.Violation) {
	for i := range bindings {
		b := &bindings[i]
		if len(t.Webhooks) == 0 {
			violations = append(violations, wire.Violation{
				Path: fmt.Sprintf("%s[%d]", key, i), Binding: b.Name,
				Problem: fmt.Sprintf("is a webhook, and tenant %q has no namespaces for webhooks", t.Name),
				Hint:    "name them in webhooks of its entry in the tenants file",
			})
			continue
		}
		own := hook.LabelSelector{MatchExpressions: []hook.LabelRequirement{{Key: namespaceName, Operator: "In", Values: t.Webhooks}}}
		if s := b.NamespaceLabels; s != nil {
			own.MatchLabels, own.MatchExpressions = s.MatchLabels, slices.Concat(s.MatchExpressions, own.MatchExpressions)
		}
		b.NamespaceLabels = &own
		for n := range b.Rules {
			if b.Rules[n].Scope == "Cluster" {
				violations = append(violations, wire.Violation{
					Path: fmt.Sprintf("%s[%d].rules[%d].scope", key, i, n), Binding: b.Name,
					Problem: fmt.Sprintf("is Cluster, and webhooks of tenant %q are for objects in namespaces", t.Name),
					Hint:    "leave it out, or move the binding to a hook outside of the folders of tenants",
				})
			}
			b.Rules[n].Scope = "Namespaced"
		}
	}
	return violations
}
