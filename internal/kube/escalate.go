package kube

import (
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RBACGroup is the group of Roles and their bindings.
const RBACGroup = "rbac.authorization.k8s.io"

// Escalation returns the rule that permits to write a Role or a binding without the permissions that it grants: escalate for the Role,
// bind for the role that a binding refers to. Other objects need none. The name of a Role is empty where the request has none: with POST,
// the API server does not compare names.
func Escalation(res Resource, name string, manifest []byte) (rule Rule, needed bool) {
	var binding struct {
		RoleRef struct{ Kind, Name string } `json:"roleRef"`
	}
	rule = Rule{Group: RBACGroup, Resource: res.Resource, Verbs: []string{"escalate"}}
	switch res.Kind {
	case "Role", "ClusterRole":
		if name != "" {
			rule.Names = []string{name}
		}
	case "RoleBinding", "ClusterRoleBinding":
		_ = json.Unmarshal(manifest, &binding) // a patch may have no role
		rule.Verbs, rule.Resource = []string{"bind"}, "clusterroles"
		if binding.RoleRef.Kind == "Role" {
			rule.Resource = "roles"
		}
		if binding.RoleRef.Name != "" {
			rule.Names = []string{binding.RoleRef.Name}
		}
	default:
		return Rule{}, false
	}
	return rule, res.Group == RBACGroup
}

// ExplainEscalation adds the rule to the error of a write that the API server has rejected because the operator lacks a permission that
// the Role or the binding grants: a webhook or a policy that rejects it has a text of its own.
func ExplainEscalation(err error, namespace string, res Resource, name string, manifest []byte) error {
	rule, needed := Escalation(res, name, manifest)
	if !needed || !apierrors.IsForbidden(err) || IsPermissionMissing(err) || foreign.MatchString(err.Error()) ||
		!strings.Contains(err.Error(), "may quote values") {
		return err
	}
	return fmt.Errorf("%w: only a client with all permissions of the role may grant it, or with the verb %s: %s", err, rule.Verbs[0],
		Grant(namespace, rule))
}
