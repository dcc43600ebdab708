package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// cluster is a real cluster.
type cluster struct {
	*kube.Cluster
	client   kube.Client
	resolver *kube.Resolver
}

// connect finds the cluster, without a request. It writes files to dir.
func connect(o kube.Options, dir string) (*cluster, error) {
	cl, err := kube.Connect(o, dir)
	if err != nil {
		return nil, err
	}
	return newCluster(cl)
}

func newCluster(cl *kube.Cluster) (*cluster, error) {
	client, err := kube.NewClient(cl.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for the cluster: %w", err)
	}
	return &cluster{cl, client, kube.NewResolver(client)}, nil
}

// resolve finds the resource of a binding's kind.
func (c *cluster) resolve(ctx context.Context, b *hook.Kubernetes) (kube.Resource, error) {
	return c.resolver.Resolve(ctx, b.APIVersion, b.Kind, "list", "watch")
}

// get reads an object.
func (c *cluster) get(ctx context.Context, res kube.Resource, namespace, name string) ([]byte, error) {
	return kube.Send(ctx, c.client.Get().AbsPath(append(res.Path(namespace), name)...))
}

// listPage is how many objects a request lists.
const listPage = 500

// objects reads the objects that a binding selects, at most limit; 0 means all.
func (c *cluster) objects(ctx context.Context, res kube.Resource, b *hook.Kubernetes, limit int) (all [][]byte, err error) {
	namespaces := []string{""}
	switch {
	case !res.Namespaced:
	case b.Namespaces.ByLabels:
		if namespaces, err = c.namespaces(ctx, b.Namespaces.Labels); err != nil {
			return nil, err
		}
	case len(b.Namespaces.Names) > 0:
		namespaces = b.Namespaces.Names
	}
	names := b.Names
	if len(names) == 0 {
		names = []string{""}
	}
	for _, namespace := range namespaces {
		for _, name := range names {
			fields := b.Fields
			if name != "" {
				fields = strings.TrimPrefix(fields+",metadata.name="+name, ",")
			}
			found, err := c.list(ctx, res, namespace, b.Labels, fields, limit)
			if err != nil {
				return nil, err
			}
			if all = append(all, found...); limit > 0 && len(all) >= limit {
				return all[:limit], nil
			}
		}
	}
	return all, nil
}

// namespaces returns the names of namespaces.
func (c *cluster) namespaces(ctx context.Context, labels string) (names []string, err error) {
	found, err := c.list(ctx, namespaceResource, "", labels, "", 0)
	for _, text := range found {
		h, err := headOf(text)
		if err != nil {
			return nil, err
		}
		names = append(names, h.Metadata.Name)
	}
	return names, err
}

// namespaceResource is that of namespaces.
var namespaceResource = kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
	Kind: "Namespace"}

// list reads objects page by page. Items of lists have neither apiVersion nor kind.
func (c *cluster) list(ctx context.Context, res kube.Resource, namespace, labels, fields string, limit int) (all [][]byte, err error) {
	next := ""
	for {
		page := listPage
		if limit > 0 {
			page = min(page, limit-len(all))
		}
		request := c.client.Get().AbsPath(res.Path(namespace)...).Param("limit", strconv.Itoa(page))
		for name, value := range map[string]string{"labelSelector": labels, "fieldSelector": fields, "continue": next} {
			if value != "" {
				request = request.Param(name, value)
			}
		}
		text, err := kube.Send(ctx, request)
		if err != nil {
			return nil, err
		}
		var answer struct {
			Metadata struct{ Continue string }
			Items    []map[string]json.RawMessage
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, fmt.Errorf("cannot read the list of %s: %w", res.Resource, err)
		}
		for _, item := range answer.Items {
			for field, value := range map[string]string{"apiVersion": res.GroupVersion().String(), "kind": res.Kind} {
				if item[field] == nil {
					item[field], _ = json.Marshal(value)
				}
			}
			object, err := json.Marshal(item)
			if err != nil {
				return nil, err
			}
			all = append(all, object)
		}
		if next = answer.Metadata.Continue; next == "" || limit > 0 && len(all) >= limit {
			return all, nil
		}
	}
}

// access answers whether a user has permissions; as is empty for the user of the connection.
type access struct {
	*cluster
	as    string
	known map[permission]bool
}

// permission is one for a verb.
type permission struct{ verb, group, resource, namespace, name string }

// allowed asks the API server.
func (a *access) allowed(ctx context.Context, p permission) (bool, error) {
	if answer, known := a.known[p]; known {
		return answer, nil
	}
	resource, subresource, _ := strings.Cut(p.resource, "/")
	spec := map[string]any{"resourceAttributes": map[string]string{
		"verb": p.verb, "group": p.group, "resource": resource, "subresource": subresource, "namespace": p.namespace, "name": p.name,
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
	text, err := kube.Send(ctx, a.client.Post().AbsPath("/apis/authorization.k8s.io/v1", resource).
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
