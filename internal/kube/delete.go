package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// DeleteWithDependents deletes the object, and returns when it and all that it owns are gone: of a Deployment, when its Pods
// have ended. It needs the permissions to get, watch and delete this object. It returns the error of the API server for an absent one.
func (o One) DeleteWithDependents(ctx context.Context) error {
	_, err := Send(ctx, o.Client.Delete().AbsPath(append(o.Path, o.Name)...).
		Body([]byte(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground"}`)))
	if err != nil {
		return err
	}
	gone, done := context.WithCancel(ctx)
	defer done()
	var failure error
	fail := func(err error) {
		failure = err
		done()
	}
	// The API server sends the state at the opening of the watch, but no deletion before it.
	read := func() {
		_, err := Send(gone, o.Client.Get().AbsPath(append(o.Path, o.Name)...))
		switch {
		case apierrors.IsNotFound(err):
			done()
		case IsPermissionMissing(err):
			fail(err)
		}
	}
	WatchOne(gone, Backoff{}, func(ctx context.Context) error {
		return o.Watch(ctx, read, func(deleted bool, _ []byte) {
			if deleted {
				done()
			}
		})
	}, func(err error) {
		if IsPermissionMissing(err) {
			fail(err)
		}
	})
	if failure == nil && ctx.Err() != nil {
		return fmt.Errorf("%s is being deleted, but not gone: %w", o.Name, ctx.Err())
	}
	return failure
}
