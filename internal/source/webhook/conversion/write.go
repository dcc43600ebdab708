package conversion

import (
	"context"
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/httpserver"

	"github.com/shell-operator/shell-operator/internal/kube"
)

const fieldManager = "shell-operator"

// write patches the CRD. Where RBAC allows only updates, as upstream needs, it updates.
func (f *follower) write(ctx context.Context, patch []byte) error {
	_, err := kube.Send(ctx, f.opts.Client.Patch(types.MergePatchType).AbsPath(crdPath, f.name).
		Param("fieldManager", fieldManager).Body(patch))
	if apierrors.IsForbidden(err) {
		f.missing(err)
		err = f.update(ctx, patch, err)
	}
	return err
}

// update replaces the whole CRD. Where that is forbidden, too, it returns the error of the patch.
func (f *follower) update(ctx context.Context, patch []byte, forbidden error) error {
	raw, err := f.getCRD(ctx, f.name)
	if err != nil {
		return forbidden
	}
	if raw, err = jsonpatch.MergePatch(raw, patch); err != nil {
		return err
	}
	_, err = kube.Send(ctx, f.opts.Client.Put().AbsPath(crdPath, f.name).Param("fieldManager", fieldManager).Body(raw))
	if apierrors.IsForbidden(err) {
		return forbidden
	}
	return err
}

// registered reports a CRD that has the registration, written now or before.
func (f *follower) registered(patch []byte, written bool) {
	f.report(nil)
	switch {
	case f.applied == nil && !written:
		f.log.Info("The CRD leads to the conversion hooks already")
	case !written:
	case f.applied == nil:
		f.log.Info("The CRD leads to the conversion hooks now")
	case string(f.applied) == string(patch):
		f.log.Warn("Another client changed spec.conversion of the CRD, which is restored")
	default:
		f.log.Info("The CRD has the new certificates for the conversion hooks")
	}
	f.applied = patch
}

// failed logs an error, except during a shutdown.
func (f *follower) failed(ctx context.Context, message string, err error) {
	err = httpserver.WithoutTokens(err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
	case apierrors.IsForbidden(err):
		f.report(fmt.Errorf("%w: %s", err, hint(f.crds)))
		f.log.Error(message, "error", err.Error(), "hint", hint(f.crds))
	default:
		f.report(err)
		f.log.Error(message, "error", err.Error())
	}
}
