package simulate

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
)

// What a request needs, as the API server decides it.
func TestPermissionOfRequests(t *testing.T) {
	for request, want := range map[string]string{
		"GET /api": "", "GET /api/v1": "", "GET /apis": "", "GET /apis/apps/v1": "", "GET /version": "",
		"GET /api/v1/namespaces/shop/pods":                                   "list pods shop ",
		"GET /api/v1/pods?watch=true":                                        "watch pods  ",
		"GET /api/v1/namespaces/shop/pods?fieldSelector=metadata.name%3Da":   "list pods shop a",
		"GET /api/v1/namespaces/shop/pods/a":                                 "get pods shop a",
		"POST /api/v1/namespaces/shop/pods":                                  "create pods shop ",
		"POST /api/v1/namespaces/shop/pods/a/eviction":                       "create pods/eviction shop a",
		"PUT /apis/apps/v1/namespaces/shop/deployments/a":                    "update apps.deployments shop a",
		"PATCH /apis/apps/v1/namespaces/shop/deployments/a/status":           "patch apps.deployments/status shop a",
		"DELETE /apis/apps/v1/namespaces/shop/deployments/a":                 "delete apps.deployments shop a",
		"DELETE /apis/apps/v1/namespaces/shop/deployments":                   "deletecollection apps.deployments shop ",
		"GET /api/v1/namespaces":                                             "list namespaces  ",
		"GET /api/v1/namespaces/shop":                                        "get namespaces shop shop",
		"PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/a?force=true": "patch rbac.authorization.k8s.io.clusterroles  a",
	} {
		method, path, _ := strings.Cut(request, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, "http://server"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if p, ok := permissionOf(r); ok {
			got = p.Verb + " " + strings.TrimPrefix(p.Group+"."+p.Resource, ".") + " " + p.Namespace + " " + p.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
}

// What a file of Roles grants.
func TestRoleAllows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roles.yaml")
	text := `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: everywhere}
rules: [{apiGroups: [""], resources: [pods, "*/status"], verbs: [get, list]}, {apiGroups: ["*"], resources: [things], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bound}
rules: [{apiGroups: [apps], resources: ["*"], verbs: [delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: x, namespace: bank}
roleRef: {kind: ClusterRole, name: bound}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: List
items:
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: x, namespace: shop}
  rules: [{apiGroups: [""], resources: [secrets], resourceNames: [one], verbs: [get, create]}]
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := ReadRole(path)
	if err != nil {
		t.Fatal(err)
	}
	of := func(verb, group, resource, namespace, name string) rbac.Permission {
		return rbac.Permission{Verb: verb, Group: group, Resource: resource, Namespace: namespace, Name: name}
	}
	for p, want := range map[rbac.Permission]bool{
		of("get", "", "pods", "any", "a"): true, of("list", "", "pods", "", ""): true, of("watch", "", "pods", "", ""): false,
		of("get", "apps", "pods", "any", "a"): false, of("get", "", "pods/status", "any", "a"): true,
		of("get", "", "pods/log", "any", "a"):            false,
		of("escalate", "example.com", "things", "", "a"): true,
		of("delete", "apps", "deployments", "bank", "a"): true, of("delete", "apps", "deployments", "shop", "a"): false,
		of("delete", "apps", "deployments", "", "a"): false, of("delete", "apps", "deployments/scale", "bank", "a"): true,
		of("get", "", "secrets", "shop", "one"): true, of("get", "", "secrets", "shop", "two"): false,
		of("get", "", "secrets", "bank", "one"): false,
		of("create", "", "secrets", "shop", ""): false,
	} {
		if got := r.allows(p, false); got != want {
			t.Errorf("%+v: %t", p, got)
		}
	}
	if !r.allows(of("get", "", "secrets", "shop", ""), true) || r.allows(of("get", "", "secrets", "bank", ""), true) {
		t.Error("the names of the rule are not left aside")
	}
	if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: Pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRole(path); err == nil || !strings.Contains(err.Error(), "has no Role and no ClusterRole") {
		t.Errorf("error %v", err)
	}
}
