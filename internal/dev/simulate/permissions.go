package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
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

// allows reports whether a permission is granted, by the rules of the API server.
func (r *Role) allows(p rbac.Permission) bool {
	return r.any(p, (*rbac.GrantedRule).Allows)
}

// allowsSome reports whether it is granted for some objects.
func (r *Role) allowsSome(p rbac.Permission) bool {
	return r.any(p, func(rule *rbac.GrantedRule, p rbac.Permission) bool {
		all := *rule
		all.Names = nil
		return all.Allows(p)
	})
}

func (r *Role) any(p rbac.Permission, by func(*rbac.GrantedRule, rbac.Permission) bool) bool {
	for _, g := range r.grants {
		if g.namespace != "" && g.namespace != p.Namespace {
			continue
		}
		if slices.ContainsFunc(g.rules, func(rule rbac.GrantedRule) bool { return by(&rule, p) }) {
			return true
		}
	}
	return false
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
	if !ok || p.role.allows(asked) {
		return p.next.RoundTrip(r)
	}
	p.miss(asked)
	if r.Body != nil {
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	resource, subresource, _ := strings.Cut(asked.Resource, "/")
	where := "at the cluster scope"
	if asked.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", asked.Namespace)
	}
	reason := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", p.user, asked.Verb,
		strings.TrimSuffix(resource+"/"+subresource, "/"), asked.Group, where)
	status := apierrors.NewForbidden(schema.GroupResource{Group: asked.Group, Resource: resource}, asked.Name, errors.New(reason)).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	text, err := json.Marshal(status)
	return &http.Response{
		StatusCode: http.StatusForbidden, Status: "403 Forbidden", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
		Request: r,
	}, err
}

// permissionOf is what a request for objects needs; false for other requests, which every client may send.
func permissionOf(r *http.Request) (p rbac.Permission, ok bool) {
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(segments) > 2 && segments[0] == "api":
		segments = segments[2:]
	case len(segments) > 3 && segments[0] == "apis":
		p.Group, segments = segments[1], segments[3:]
	default:
		return p, false
	}
	if len(segments) > 2 && segments[0] == "namespaces" {
		p.Namespace, segments = segments[1], segments[2:]
	}
	p.Resource = segments[0]
	if len(segments) > 1 {
		p.Name = segments[1]
	}
	if p.Group == "" && p.Resource == "namespaces" {
		p.Namespace = p.Name // as the API server has it
	}
	if len(segments) > 2 {
		p.Resource += "/" + segments[2]
	}
	query := r.URL.Query()
	switch collection := len(segments) == 1; r.Method {
	case http.MethodPost:
		p.Verb = "create"
	case http.MethodPut:
		p.Verb = "update"
	case http.MethodPatch:
		p.Verb = "patch"
	case http.MethodDelete:
		if p.Verb = "delete"; collection {
			p.Verb = "deletecollection"
		}
	default:
		if p.Verb = "get"; collection {
			p.Verb = "list"
			if query.Get("watch") == "true" || query.Get("watch") == "1" {
				p.Verb = "watch"
			}
			if name, ok := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name="); ok && !strings.Contains(name, ",") {
				p.Name = name
			}
		}
	}
	return p, true
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
		k.Condition, k.Finalizer = "", "" // their requests are sent
		watching.Kubernetes = append(watching.Kubernetes, k)
	}
	roles, err := rbac.Plan([]*hook.Hook{watching}, func(apiVersion, kind string) (rbac.Kind, error) {
		res, err := resolve(apiVersion, kind)
		return rbac.Kind{Group: res.Group, Resource: res.Resource, Namespaced: res.Namespaced}, err
	}, rbac.Options{Namespace: "default"})
	if err != nil {
		return err
	}
	for _, r := range roles {
		for _, rule := range r.Rules {
			for _, verb := range []string{"list", "watch"} {
				for one := range rule.Permissions(r.Namespace, verb) {
					if !p.role.allows(one) {
						p.miss(one)
					}
				}
			}
		}
	}
	return nil
}

// denied returns what was not granted, and what of the operations' needs is not, also where the case has not needed it.
func (p *permissions) denied(sent []apply.Sent) []rbac.Permission {
	if p == nil {
		return nil
	}
	for _, one := range sent {
		for _, verb := range one.Verbs {
			needed := rbac.Permission{Verb: verb, Group: one.Group, Resource: one.Resource, Namespace: one.Namespace}
			if !p.role.allowsSome(needed) {
				p.miss(needed)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.missing)
}
