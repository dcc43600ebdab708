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
		r.writeRules(&b, "")
		fmt.Fprintf(&b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %sBinding\nmetadata:\n  name: %s\n", r.kind(), quoted(o.Name))
		r.writeNamespace(&b)
		fmt.Fprintf(&b, "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: %s\n  name: %s\n", r.kind(), quoted(o.Name))
		fmt.Fprintf(&b, "subjects:\n- kind: ServiceAccount\n  name: %s\n  namespace: %s\n", quoted(o.ServiceAccount), quoted(o.Namespace))
	}
	return b.String()
}

func (r Role) writeRules(b *strings.Builder, indent string) {
	for _, rule := range r.Rules {
		for _, why := range rule.Why {
			b.WriteString(indent + "# " + strings.Join(strings.Fields(why), " ") + "\n")
		}
		fmt.Fprintf(b, "%[1]s- apiGroups: [%[2]s]\n%[1]s  resources: [%[3]s]\n", indent, quoted(rule.Group), quoted(rule.Resource))
		if len(rule.Names) > 0 {
			fmt.Fprintf(b, "%s  resourceNames: [%s]\n", indent, quoted(rule.Names...))
		}
		fmt.Fprintf(b, "%s  verbs: [%s]\n", indent, quoted(rule.Verbs...))
	}
}

// Values writes the rules of hooks as values of the chart, after a comment, and those that enable what the hooks use: the chart has the
// rules for that.
func Values(about string, roles []Role, hooks []*hook.Hook, o Options) string {
	var b strings.Builder
	b.WriteString("# " + strings.ReplaceAll(about, "\n", "\n# ") + "\nrbac:\n")
	key := func(name, indent string, r Role) {
		b.WriteString(name + ":\n")
		r.writeRules(&b, indent)
	}
	begun := false
	for _, r := range roles {
		switch r.Namespace {
		case "":
			key("  clusterRules", "  ", r)
		case o.Namespace:
			key("  rules", "  ", r)
		}
	}
	for _, r := range roles {
		if r.Namespace != "" && r.Namespace != o.Namespace {
			if !begun {
				b.WriteString("  namespaces:\n")
			}
			begun = true
			key("    "+quoted(r.Namespace), "    ", r)
		}
	}
	if len(roles) == 0 {
		b.WriteString("  rules: []\n")
	}
	var crds []string
	uses := map[hook.Kind]bool{}
	finalizes := false
	for _, h := range hooks {
		for a := range h.Bindings() {
			uses[a.Kind] = true
		}
		for _, c := range h.Conversions {
			crds = append(crds, c.CRDName)
		}
		finalizes = finalizes || slices.ContainsFunc(h.Kubernetes, func(k hook.Kubernetes) bool { return k.Finalizer != "" })
	}
	if slices.Sort(crds); uses[hook.OnValidating] || uses[hook.OnMutating] || len(crds) > 0 {
		fmt.Fprintf(&b, "webhooks:\n  validating: %t\n  mutating: %t\n", uses[hook.OnValidating], uses[hook.OnMutating])
	}
	if crds = slices.Compact(crds); len(crds) > 0 {
		fmt.Fprintf(&b, "  conversion:\n    enabled: true\n    crds: [%s]\n", quoted(crds...))
	}
	if finalizes {
		b.WriteString("finalizers:\n  enabled: true\n")
	}
	if uses[hook.OnHTTP] {
		b.WriteString("http:\n  enabled: true\n")
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
