package replica

import (
	"context"
	"encoding/json"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// reader reads Leases, and watches them. Errors come from the API server unchanged.
type reader interface {
	get(ctx context.Context, name string) (*coordinationv1.Lease, error)
	// list returns the Leases with a label, as they are now.
	list(ctx context.Context, selector string) ([]coordinationv1.Lease, error)
	// watch calls opened, then changed with the current state and each later one, nil after a deletion. It returns when the
	// API server ends the watch. It is about one Lease, or the Leases of a selector.
	watch(ctx context.Context, name, selector string, opened func(), changed func(name string, lease *coordinationv1.Lease)) error
}

// store reads and writes Leases.
type store interface {
	reader
	create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
	// update fails with a conflict if the Lease has changed since this version of it.
	update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
	// remove fails with a conflict if the Lease is not this version of this object.
	remove(ctx context.Context, lease *coordinationv1.Lease) error
}

type apiStore struct {
	client    rest.Interface
	namespace string
}

var _ store = (*apiStore)(nil)

func (s *apiStore) path(name ...string) []string {
	return append([]string{"/apis/coordination.k8s.io/v1/namespaces", s.namespace, "leases"}, name...)
}

func (s *apiStore) get(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	return decode(kube.Send(ctx, s.client.Get().AbsPath(s.path(name)...)))
}

func (s *apiStore) list(ctx context.Context, selector string) ([]coordinationv1.Lease, error) {
	text, err := kube.Send(ctx, s.client.Get().AbsPath(s.path()...).Param("labelSelector", selector))
	if err != nil {
		return nil, err
	}
	var all coordinationv1.LeaseList
	err = json.Unmarshal(text, &all)
	return all.Items, err
}

func (s *apiStore) create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return s.write(ctx, s.client.Post().AbsPath(s.path()...), lease)
}

func (s *apiStore) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return s.write(ctx, s.client.Put().AbsPath(s.path(lease.Name)...), lease)
}

func (s *apiStore) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	_, err := kube.SendJSON(ctx, s.client.Delete().AbsPath(s.path(lease.Name)...), metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
	return err
}

func (s *apiStore) write(ctx context.Context, r *rest.Request, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	lease = lease.DeepCopy()
	lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	return decode(kube.SendJSON(ctx, r, lease))
}

func decode(text []byte, err error) (*coordinationv1.Lease, error) {
	if err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{}
	return lease, json.Unmarshal(text, lease)
}

func (s *apiStore) watch(ctx context.Context, name, selector string, opened func(),
	changed func(name string, lease *coordinationv1.Lease)) error {
	few := kube.One{Client: s.client, Path: s.path(), Name: name, Labels: selector}
	return few.Watch(ctx, opened, func(deleted bool, object []byte) {
		lease := &coordinationv1.Lease{}
		switch err := json.Unmarshal(object, lease); {
		case err != nil:
		case deleted:
			changed(lease.Name, nil)
		default:
			changed(lease.Name, lease)
		}
	})
}
