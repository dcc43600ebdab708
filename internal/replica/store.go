package replica

import (
	"context"
	"encoding/json"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// store reads and writes Leases. Errors come from the API server unchanged. Writes fail with a conflict if the Lease has
// changed since this version of it.
type store struct {
	client    rest.Interface
	namespace string
}

func (s *store) path(name ...string) []string {
	return append([]string{"/apis/coordination.k8s.io/v1/namespaces", s.namespace, "leases"}, name...)
}

func (s *store) get(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	return decode[coordinationv1.Lease](kube.Send(ctx, s.client.Get().AbsPath(s.path(name)...)))
}

// list returns the Leases with a label, as they are now.
func (s *store) list(ctx context.Context, selector string) ([]coordinationv1.Lease, error) {
	all, err := decode[coordinationv1.LeaseList](kube.Send(ctx, s.client.Get().AbsPath(s.path()...).Param("labelSelector", selector)))
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}

func (s *store) create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return write(ctx, s.client.Post().AbsPath(s.path()...), lease)
}

func (s *store) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return write(ctx, s.client.Put().AbsPath(s.path(lease.Name)...), lease)
}

func (s *store) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	_, err := kube.SendJSON(ctx, s.client.Delete().AbsPath(s.path(lease.Name)...), metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
	return err
}

func write(ctx context.Context, r *rest.Request, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	lease = lease.DeepCopy()
	lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	return decode[coordinationv1.Lease](kube.SendJSON(ctx, r, lease))
}

func decode[T any](text []byte, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	object := new(T)
	return object, json.Unmarshal(text, object)
}

// watch calls opened, then changed with the current state and each later one, nil after a deletion. It returns when the API server ends
// the watch. It is about one Lease, or the Leases of a selector.
func (s *store) watch(ctx context.Context, name, selector string, opened func(),
	changed func(name string, lease *coordinationv1.Lease)) error {
	few := kube.One{Client: s.client, Path: s.path(), Name: name, Labels: selector}
	return few.Watch(ctx, opened, func(deleted bool, object []byte) {
		lease, err := decode[coordinationv1.Lease](object, nil)
		switch {
		case err != nil:
		case deleted:
			changed(lease.Name, nil)
		default:
			changed(lease.Name, lease)
		}
	})
}
