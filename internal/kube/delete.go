package kube

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// DeleteWithDependents deletes the object, and returns when it and all that it owns are gone: of a Deployment, when its Pods
// have ended. It needs the permissions to get and delete this object. It returns the error of the API server for an absent one.
func (o One) DeleteWithDependents(ctx context.Context) error {
	path := append(o.Path, o.Name)
	_, err := Send(ctx, o.Client.Delete().AbsPath(path...).
		Body([]byte(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground"}`)))
	if err != nil {
		return err
	}
	for Wait(ctx, time.Second, nil) {
		switch _, err := Send(ctx, o.Client.Get().AbsPath(path...)); {
		case apierrors.IsNotFound(err):
			return nil
		case IsPermissionMissing(err):
			return err
		}
	}
	return fmt.Errorf("%s is being deleted, but not gone: %w", o.Name, ctx.Err())
}
