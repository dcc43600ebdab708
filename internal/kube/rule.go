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

// Rule is an RBAC rule.
type Rule struct {
	Group, Resource string
	// Names limits the rule to objects; empty means all.
	Names []string
	Verbs []string
}

// String returns the rule as it is written in a Role.
func (r Rule) String() string {
	names := ""
	if len(r.Names) > 0 {
		names = fmt.Sprintf(`, resourceNames: ["%s"]`, strings.Join(r.Names, `", "`))
	}
	return fmt.Sprintf(`{apiGroups: [%q], resources: [%q]%s, verbs: ["%s"]}`, r.Group, r.Resource, names, strings.Join(r.Verbs, `", "`))
}

// Grant returns the hint of all errors about missing permissions: the rules, and the Role that they belong into. An empty
// namespace means a ClusterRole.
func Grant(namespace string, rules ...Rule) string {
	role := "a ClusterRole"
	if namespace != "" {
		role = fmt.Sprintf("a Role in namespace %q (or a ClusterRole)", namespace)
	}
	word, texts := "rule", make([]string, len(rules))
	if len(rules) > 1 {
		word = "rules"
	}
	for i, r := range rules {
		texts[i] = r.String()
	}
	return fmt.Sprintf("give the operator's ServiceAccount, by %s, the %s %s", role, word, strings.Join(texts, " and "))
}

// Explain adds the rules to the error of a request if its permission is missing.
func Explain(err error, namespace string, rules ...Rule) error {
	if !IsPermissionMissing(err) {
		return err
	}
	return fmt.Errorf("%w: %s", err, Grant(namespace, rules...))
}
