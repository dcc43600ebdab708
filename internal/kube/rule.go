package kube

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsPermissionMissing reports whether RBAC has rejected a request. Admission webhooks and quotas reject with the same
// status, but no RBAC rule helps there.
func IsPermissionMissing(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
}

// Rule names the RBAC rule that grants verbs on a resource or subresource of r, and the Role that it belongs into. For
// no namespace, and for resources without namespaces, that is a ClusterRole.
func (r Resource) Rule(namespace, resource string, verbs ...string) string {
	role := "a ClusterRole"
	if r.Namespaced && namespace != "" {
		role = fmt.Sprintf("a Role in namespace %q (or a ClusterRole)", namespace)
	}
	return fmt.Sprintf("give the operator's ServiceAccount, by %s, the rule %s", role, RuleText(r.Group, resource, verbs...))
}

// RuleText returns an RBAC rule as it is written in a Role.
func RuleText(group, resource string, verbs ...string) string {
	return fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: ["%s"]}`, group, resource, strings.Join(verbs, `", "`))
}
