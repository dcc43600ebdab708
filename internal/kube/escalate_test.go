package kube

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestEscalation: errors of the API server that no missing verb explains name bind or escalate for Roles and bindings only.
func TestEscalation(t *testing.T) {
	res := func(resource, kind string) Resource {
		return Resource{GroupVersionResource: schema.GroupVersionResource{Group: RBACGroup, Version: "v1", Resource: resource}, Kind: kind}
	}
	rejected := func(text string) error { return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(text)) }
	forbidden := rejected("Forbidden (status 403; the text of the API server may quote values)")
	for _, row := range []struct {
		res        Resource
		name, text string
		err        error
		want       string
	}{
		{res("rolebindings", "RoleBinding"), "b", `{"roleRef": {"kind": "ClusterRole", "name": "admin"}}`, forbidden,
			`resources: ["clusterroles"], resourceNames: ["admin"], verbs: ["bind"]`},
		{res("clusterrolebindings", "ClusterRoleBinding"), "b", `{}`, forbidden, `resources: ["clusterroles"], verbs: ["bind"]`},
		{res("roles", "Role"), "r", `{}`, forbidden, `resources: ["roles"], resourceNames: ["r"], verbs: ["escalate"]`},
		{res("clusterroles", "ClusterRole"), "", `{}`, forbidden, `resources: ["clusterroles"], verbs: ["escalate"]`},
		{res("roles", "Role"), "r", `{}`, errors.New("may quote values"), ""},
		{res("roles", "Role"), "r", `{}`, rejected(`User "a" cannot create resource "roles"`), ""},
		{Resource{Kind: "Role"}, "r", `{}`, forbidden, ""}, {res("pods", "Pod"), "r", `{}`, forbidden, ""},
	} {
		got := ExplainEscalation(row.err, "", row.res, row.name, []byte(row.text))
		if row.want == "" && !errors.Is(got, row.err) || !strings.Contains(got.Error(), row.want) {
			t.Errorf("%s: %v", row.res.Kind, got)
		}
	}
}
