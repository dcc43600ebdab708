package rbac

import (
	"slices"
	"strings"
)

// Permission is one for a verb, as the API server checks it. No name means all objects.
type Permission struct{ Verb, Group, Resource, Namespace, Name string }

// Permissions returns the permissions for verbs of the rule.
func (r Rule) Permissions(namespace string, verbs ...string) (all []Permission) {
	for _, verb := range verbs {
		for _, name := range orAll(r.Names) {
			all = append(all, Permission{verb, r.Group, r.Resource, namespace, name})
		}
	}
	return all
}

// GrantedRule is a rule of a Role in a cluster, or in a file.
type GrantedRule struct {
	Groups    []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Names     []string `json:"resourceNames"`
	Verbs     []string `json:"verbs"`
}

// Allows reports whether the rule grants a permission where it is in force, by the rules of the API server.
func (r *GrantedRule) Allows(p Permission) bool {
	_, subresource, _ := strings.Cut(p.Resource, "/")
	has := func(list []string, value string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, value)
	}
	return has(r.Verbs, p.Verb) && has(r.Groups, p.Group) &&
		(has(r.Resources, p.Resource) || subresource != "" && slices.Contains(r.Resources, "*/"+subresource)) &&
		(len(r.Names) == 0 || p.Name != "" && slices.Contains(r.Names, p.Name))
}
