package replica

import (
	"context"
	"encoding/json"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// store reads and writes the Lease. Errors are those of the API server.
type store interface {
	get(ctx context.Context) (*coordinationv1.Lease, error)
	create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
	// update fails with a conflict if the Lease has changed since this version of it.
	update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
	// watch calls opened, then changed with the current state and each later one, nil after a deletion. It returns when the
	// API server ends the watch.
	watch(ctx context.Context, opened func(), changed func(*coordinationv1.Lease)) error
}

type apiStore struct {
	client          rest.Interface
	namespace, name string
}

var _ store = (*apiStore)(nil)

func (s *apiStore) path(name ...string) []string {
	return append([]string{"/apis/coordination.k8s.io/v1/namespaces", s.namespace, "leases"}, name...)
}

func (s *apiStore) get(ctx context.Context) (*coordinationv1.Lease, error) {
	return decode(kube.Send(ctx, s.client.Get().AbsPath(s.path(s.name)...)))
}

func (s *apiStore) create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return s.write(ctx, s.client.Post().AbsPath(s.path()...), lease)
}

func (s *apiStore) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return s.write(ctx, s.client.Put().AbsPath(s.path(s.name)...), lease)
}

func (s *apiStore) write(ctx context.Context, r *rest.Request, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	lease = lease.DeepCopy()
	lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	body, err := json.Marshal(lease)
	if err != nil {
		return nil, err
	}
	return decode(kube.Send(ctx, r.SetHeader("Content-Type", "application/json").Body(body)))
}

func decode(text []byte, err error) (*coordinationv1.Lease, error) {
	if err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{}
	return lease, json.Unmarshal(text, lease)
}

func (s *apiStore) watch(ctx context.Context, opened func(), changed func(*coordinationv1.Lease)) error {
	return kube.One{Client: s.client, Path: s.path(), Name: s.name}.Watch(ctx, opened, func(object []byte) {
		if object == nil {
			changed(nil)
			return
		}
		lease := &coordinationv1.Lease{}
		if json.Unmarshal(object, lease) == nil {
			changed(lease)
		}
	})
}
