package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/dev/simulate"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// access answers whether a user has permissions; as is empty for the user of the connection.
type access struct {
	*simulate.Cluster
	as    string
	known map[rbac.Permission]bool
}

// lacking returns those verbs of a rule that are not granted for all of its objects.
func (a *access) lacking(ctx context.Context, namespace string, rule rbac.Rule, verbs []string) (lacking []string, err error) {
	for _, verb := range verbs {
		for p := range rule.Permissions(namespace, verb) {
			if ok, err := a.allowed(ctx, p); err != nil {
				return nil, err
			} else if !ok {
				lacking = append(lacking, verb)
				break
			}
		}
	}
	return lacking, nil
}

// allowed asks the API server.
func (a *access) allowed(ctx context.Context, p rbac.Permission) (bool, error) {
	if answer, known := a.known[p]; known {
		return answer, nil
	}
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	spec := map[string]any{"resourceAttributes": map[string]string{
		"verb": p.Verb, "group": p.Group, "resource": resource, "subresource": subresource, "namespace": p.Namespace, "name": p.Name,
	}}
	kind := "SelfSubjectAccessReview"
	if a.as != "" {
		kind = "SubjectAccessReview"
		spec["user"], spec["groups"] = a.as, groupsOf(a.as)
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
	if err != nil {
		return false, err
	}
	resource = strings.ToLower(kind) + "s"
	text, err := kube.Send(ctx, a.Client.Post().AbsPath("/apis/authorization.k8s.io/v1", resource).
		SetHeader("Content-Type", "application/json").Body(body))
	if apierrors.IsForbidden(err) {
		return false, fmt.Errorf("cannot check the permissions of %s: %w: %s", a.as, err,
			kube.Grant("", kube.Rule{Group: "authorization.k8s.io", Resource: resource, Verbs: []string{"create"}}))
	}
	var answer struct{ Status struct{ Allowed bool } }
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		return false, fmt.Errorf("cannot check permissions: %w", err)
	}
	a.known[p] = answer.Status.Allowed
	return answer.Status.Allowed, nil
}

// groupsOf are the groups that the API server adds to a user.
func groupsOf(user string) []string {
	groups := []string{"system:authenticated"}
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(account, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	return groups
}
