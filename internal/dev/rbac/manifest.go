package rbac

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// YAML writes the roles and their bindings for kubectl apply, after a comment. Comments name the reason of each rule.
func YAML(about string, roles []Role, o Options) string {
	var b strings.Builder
	b.WriteString("# " + strings.ReplaceAll(about, "\n", "\n# ") + "\n")
	if len(roles) == 0 {
		b.WriteString("# The hooks have no bindings that need permissions.\n")
	}
	for _, r := range roles {
		fmt.Fprintf(&b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: %s\n", r.kind(), quoted(o.Name))
		r.writeNamespace(&b)
		b.WriteString("rules:\n")
		for _, rule := range r.Rules {
			for _, why := range rule.Why {
				b.WriteString("# " + strings.Join(strings.Fields(why), " ") + "\n")
			}
			fmt.Fprintf(&b, "- apiGroups: [%s]\n  resources: [%s]\n", quoted(rule.Group), quoted(rule.Resource))
			if len(rule.Names) > 0 {
				fmt.Fprintf(&b, "  resourceNames: [%s]\n", quoted(rule.Names...))
			}
			fmt.Fprintf(&b, "  verbs: [%s]\n", quoted(rule.Verbs...))
		}
		fmt.Fprintf(&b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %sBinding\nmetadata:\n  name: %s\n", r.kind(), quoted(o.Name))
		r.writeNamespace(&b)
		fmt.Fprintf(&b, "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: %s\n  name: %s\n", r.kind(), quoted(o.Name))
		fmt.Fprintf(&b, "subjects:\n- kind: ServiceAccount\n  name: %s\n  namespace: %s\n", quoted(o.ServiceAccount), quoted(o.Namespace))
	}
	return b.String()
}

func (r Role) kind() string {
	if r.Namespace == "" {
		return "ClusterRole"
	}
	return "Role"
}

func (r Role) writeNamespace(b *strings.Builder) {
	if r.Namespace != "" {
		fmt.Fprintf(b, "  namespace: %s\n", quoted(r.Namespace))
	}
}

// quoted are texts for a list in YAML, which reads JSON.
func quoted(texts ...string) string {
	parts := make([]string, len(texts))
	for i, text := range texts {
		q, _ := json.Marshal(text) // strings always can be marshalled
		parts[i] = string(q)
	}
	return strings.Join(parts, ", ")
}

// Configurations are the webhook configurations of hooks, without webhooks, which the operator adds. So it needs no permission to create
// any.
func Configurations(hooks []*hook.Hook, o Options) string {
	var b strings.Builder
	add := func(kind string, bindings func(*hook.Hook) []hook.Admission) {
		if slices.ContainsFunc(hooks, func(h *hook.Hook) bool { return len(bindings(h)) > 0 }) {
			fmt.Fprintf(&b,
				"---\n# The operator adds the webhooks.\napiVersion: admissionregistration.k8s.io/v1\nkind: "+
					"%sWebhookConfiguration\nmetadata:\n  name: %s\n", kind, quoted(o.Configuration))
		}
	}
	add("Validating", func(h *hook.Hook) []hook.Admission { return h.Validating })
	add("Mutating", func(h *hook.Hook) []hook.Admission { return h.Mutating })
	return b.String()
}
