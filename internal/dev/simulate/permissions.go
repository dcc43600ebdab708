package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// Role is what a file of Roles grants.
type Role struct{ grants []grant }

// grant are the rules of a role in a namespace; empty means all.
type grant struct {
	namespace string
	rules     []rbac.GrantedRule
}

// roleManifest has the fields of roles and of their bindings.
type roleManifest struct {
	Kind     string                           `json:"kind"`
	Metadata struct{ Name, Namespace string } `json:"metadata"`
	Rules    []rbac.GrantedRule               `json:"rules"`
	RoleRef  struct{ Kind, Name string }      `json:"roleRef"`
}

// ReadRole reads the Roles and ClusterRoles of a file. A ClusterRole to which only RoleBindings of the file refer counts in their
// namespaces, and each other one everywhere, as a Role without a namespace does.
func ReadRole(path string) (*Role, error) {
	manifests, err := testfile.ReadManifests([]string{path})
	if err != nil {
		return nil, fmt.Errorf("cannot read the Roles: %w", err)
	}
	var all []roleManifest
	bound := map[string][]string{}
	everywhere := map[string]bool{}
	for _, m := range manifests {
		var one roleManifest
		if err := json.Unmarshal(m.Text, &one); err != nil {
			return nil, fmt.Errorf("cannot read the Roles: %s: %w", m.Path, err)
		}
		switch {
		case one.Kind == "Role" || one.Kind == "ClusterRole":
			all = append(all, one)
		case one.Kind == "RoleBinding" && one.RoleRef.Kind == "ClusterRole":
			bound[one.RoleRef.Name] = append(bound[one.RoleRef.Name], one.Metadata.Namespace)
		case one.Kind == "ClusterRoleBinding":
			everywhere[one.RoleRef.Name] = true
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no Role and no ClusterRole: shell-operator rbac prints them", path)
	}
	r := &Role{}
	for _, one := range all {
		namespaces := []string{one.Metadata.Namespace}
		if one.Kind == "ClusterRole" {
			namespaces = []string{""}
			if found := bound[one.Metadata.Name]; len(found) > 0 && !everywhere[one.Metadata.Name] {
				namespaces = found
			}
		}
		for _, namespace := range namespaces {
			r.grants = append(r.grants, grant{namespace, one.Rules})
		}
	}
	return r, nil
}

// allows reports whether a permission is granted, by the rules of the API server; with some, for some objects.
func (r *Role) allows(p rbac.Permission, some bool) bool {
	return slices.ContainsFunc(r.grants, func(g grant) bool {
		return (g.namespace == "" || g.namespace == p.Namespace) && slices.ContainsFunc(g.rules, func(rule rbac.GrantedRule) bool {
			if some {
				rule.Names = nil
			}
			return rule.Allows(p)
		})
	})
}

// permissions answers the requests for which a role grants no permission as the API server does, and passes the others on. A nil one grants
// everything.
type permissions struct {
	role *Role
	user string
	next http.RoundTripper

	mu      sync.Mutex // guards missing
	missing []rbac.Permission
}

func (p *permissions) RoundTrip(r *http.Request) (*http.Response, error) {
	asked, ok := permissionOf(r)
	if !ok || p.role.allows(asked, false) {
		return p.next.RoundTrip(r)
	}
	if !kube.IsOptional(r.Context()) {
		p.miss(asked)
	}
	where := "at the cluster scope"
	if asked.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", asked.Namespace)
	}
	reason := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", p.user, asked.Verb, asked.Resource, asked.Group, where)
	resource := schema.GroupResource{Group: asked.Group}
	resource.Resource, _, _ = strings.Cut(asked.Resource, "/")
	return transport{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		memory.Reject(w, apierrors.NewForbidden(resource, asked.Name, errors.New(reason)))
	})}.RoundTrip(r)
}

// verbs are the verbs of requests, by their method; GET has several.
var verbs = map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}

// permissionOf is what a request for objects needs; false for other requests, which every client may send.
func permissionOf(r *http.Request) (p rbac.Permission, ok bool) {
	at, query := kube.ParsePath(r.URL.Path), r.URL.Query()
	p = rbac.Permission{Verb: cmp.Or(verbs[r.Method], "get"), Group: at.Group, Resource: at.Resource, Namespace: at.Namespace, Name: at.Name}
	if p.Group == "" && p.Resource == "namespaces" {
		p.Namespace = p.Name // as the API server has it
	}
	if at.Subresource != "" {
		p.Resource += "/" + at.Subresource
	}
	switch collection := p.Name == ""; {
	case collection && p.Verb == "delete":
		p.Verb = "deletecollection"
	case collection && p.Verb == "get":
		if p.Verb = "list"; query.Get("watch") == "true" || query.Get("watch") == "1" {
			p.Verb = "watch"
		}
		if name, ok := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name="); ok && !strings.Contains(name, ",") {
			p.Name = name
		}
	}
	return p, p.Resource != ""
}

// miss records a permission that is not granted.
func (p *permissions) miss(one rbac.Permission) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.missing, one) {
		p.missing = append(p.missing, one)
	}
}

func (p *permissions) missAny() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.missing) > 0
}

// checkBindings records what the operator needs to list and watch for the bindings of a hook and is not granted.
func (p *permissions) checkBindings(h *hook.Hook, resolve func(apiVersion, kind string) (kube.Resource, error)) error {
	if p == nil {
		return nil
	}
	watching := &hook.Hook{Name: h.Name}
	for _, k := range h.Kubernetes {
		if _, err := resolve(k.APIVersion, k.Kind); k.Optional && errors.As(err, new(*kube.UnknownKindError)) {
			continue
		}
		k.Condition, k.Finalizer = "", "" // their requests are sent
		watching.Kubernetes = append(watching.Kubernetes, k)
	}
	roles, err := rbac.Plan([]*hook.Hook{watching}, func(apiVersion, kind string) (kube.Resource, bool, error) {
		res, err := resolve(apiVersion, kind)
		return res, false, err
	}, rbac.Options{Namespace: "default"})
	if err != nil {
		return err
	}
	for _, r := range roles {
		for _, rule := range r.Rules {
			for _, one := range rule.Permissions(r.Namespace, "list", "watch") {
				if !p.role.allows(one, false) {
					p.miss(one)
				}
			}
		}
	}
	return nil
}

// escalate adds the permissions to write Roles and bindings, except where the role of the operator has all that a Role grants.
func (s *simulation) escalate(written []memory.Object, by []effect.Patch) {
	for _, o := range written {
		o, found := s.server.Get(o)
		name := o.Name
		if i := slices.IndexFunc(by, func(p effect.Patch) bool { return p.Kind == o.Kind.Kind && p.Name == o.Name }); i >= 0 {
			name = by[i].NameInPath()
		}
		rule, needed := kube.Escalation(o.Kind.Resource, name, o.JSON)
		if !found || !needed {
			continue
		}
		one := rbac.Permission{Verb: rule.Verbs[0], Group: rule.Group, Resource: rule.Resource, Namespace: o.Namespace}
		if len(rule.Names) > 0 {
			one.Name = rule.Names[0]
		}
		if !slices.Contains(s.result.Escalations, one) {
			s.result.Escalations = append(s.result.Escalations, one)
		}
		granting := o
		if one.Verb == "bind" {
			granting, _ = find(s.server, path.Join(one.Resource, one.Name))
		}
		if s.permissions != nil && !s.permissions.role.allows(one, false) && !s.permissions.role.includes(granting) {
			s.permissions.miss(one)
		}
	}
}

// includes reports whether the role grants all rules of a Role. A Role that does not exist may
// grant anything: a built-in one, for instance.
func (r *Role) includes(o memory.Object) bool {
	var role roleManifest
	if json.Unmarshal(o.JSON, &role) != nil || len(role.Rules) == 0 {
		return false
	}
	for _, rule := range role.Rules {
		for _, group := range rule.Groups {
			for _, resource := range rule.Resources {
				one := rbac.Rule{Group: group, Resource: resource, Names: rule.Names}
				for _, p := range one.Permissions(o.Namespace, rule.Verbs...) {
					if !r.allows(p, false) {
						return false
					}
				}
			}
		}
		if len(rule.Groups) == 0 { // URLs
			return false
		}
	}
	return true
}

// denied returns what was not granted, and what of the operations' needs is not, also where the case has not needed it.
func (p *permissions) denied(sent []apply.Sent) []rbac.Permission {
	if p == nil {
		return nil
	}
	for _, one := range sent {
		for _, verb := range one.Verbs {
			if verb == "get" && one.Operation == effect.CreateIfNotExists.String() { // it is optional
				continue
			}
			needed := rbac.Permission{Verb: verb, Group: one.Group, Resource: one.Resource, Namespace: one.Namespace}
			if !p.role.allows(needed, true) {
				p.miss(needed)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.missing)
}
