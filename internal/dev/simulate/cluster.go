package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// Cluster is a real cluster, which is read.
type Cluster struct {
	Client   kube.Client
	Resolver *kube.Resolver
}

// NewCluster sends no request.
func NewCluster(cl *kube.Cluster) (*Cluster, error) {
	client, err := kube.NewClient(cl.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for the cluster: %w", err)
	}
	return &Cluster{client, kube.NewResolver(client)}, nil
}

// ResourceOf finds the resource of a binding's kind.
func (c *Cluster) ResourceOf(ctx context.Context, b *hook.Kubernetes) (kube.Resource, error) {
	return c.Resolver.Resolve(ctx, b.APIVersion, b.Kind, "list", "watch")
}

// Get reads an object.
func (c *Cluster) Get(ctx context.Context, res kube.Resource, namespace, name string) ([]byte, error) {
	return kube.Send(ctx, c.Client.Get().AbsPath(append(res.Path(namespace), name)...))
}

// listPage is how many objects a request lists.
const listPage = 500

// objects reads the objects that a binding selects.
func (c *Cluster) objects(ctx context.Context, res kube.Resource, b *hook.Kubernetes) (all [][]byte, err error) {
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
			found, err := c.list(ctx, res, namespace, b.Labels, fields)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// namespaces returns the names of namespaces.
func (c *Cluster) namespaces(ctx context.Context, labels string) (names []string, err error) {
	found, err := c.list(ctx, Namespaces, "", labels, "")
	for _, text := range found {
		h, err := testfile.HeadOf(text)
		if err != nil {
			return nil, err
		}
		names = append(names, h.Metadata.Name)
	}
	return names, err
}

// Namespaces is the resource of namespaces.
var Namespaces = kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
	Kind: "Namespace"}

// list reads objects page by page. Items of lists have neither apiVersion nor kind.
func (c *Cluster) list(ctx context.Context, res kube.Resource, namespace, labels, fields string) (all [][]byte, err error) {
	next := ""
	for {
		request := c.Client.Get().AbsPath(res.Path(namespace)...).Param("limit", strconv.Itoa(listPage))
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
		if next = answer.Metadata.Continue; next == "" {
			return all, nil
		}
	}
}
