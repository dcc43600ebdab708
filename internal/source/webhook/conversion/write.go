package conversion

import (
	"context"
	"errors"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/kube"
)

const fieldManager = "shell-operator"

// write patches the CRD. Where only updates are allowed, which the original operator needs, it updates.
func (f *follower) write(ctx context.Context, patch []byte) error {
	raw, err := kube.Send(ctx, f.opts.Client.Patch(types.MergePatchType).AbsPath(crdPath, f.name).Param("fieldManager", fieldManager).Body(patch))
	if apierrors.IsForbidden(err) {
		f.missing(err)
		raw, err = f.update(ctx, patch, err)
	}
	if err != nil {
		return err
	}
	written, err := readCRD(raw)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen != nil && f.seen.olderThan(written) {
		f.seen = written
	}
	return nil
}

// update is the other way to patch. Where that is forbidden too, the error stays what it was.
func (f *follower) update(ctx context.Context, patch []byte, forbidden error) ([]byte, error) {
	raw, err := f.getCRD(ctx, f.name)
	if err != nil {
		return nil, forbidden
	}
	if raw, err = jsonpatch.MergePatch(raw, patch); err != nil {
		return nil, err
	}
	raw, err = kube.Send(ctx, f.opts.Client.Put().AbsPath(crdPath, f.name).Param("fieldManager", fieldManager).Body(raw))
	if apierrors.IsForbidden(err) {
		return nil, forbidden
	}
	return raw, err
}

// unchanged is told that the CRD is as it has to be.
func (f *follower) unchanged(patch []byte) {
	if f.applied == nil {
		f.log.Info("The CRD leads to the conversion hooks already")
	}
	f.applied = patch
}

func (f *follower) wrote(patch []byte) {
	switch {
	case f.applied == nil:
		f.log.Info("The CRD leads to the conversion hooks now")
	case string(f.applied) == string(patch):
		f.log.Warn("Somebody changed spec.conversion of the CRD: it leads to the conversion hooks again")
	default:
		f.log.Info("The CRD has the new certificates for the conversion hooks")
	}
	f.applied = patch
}

// failed logs an error, unless it is that we are being stopped.
func (f *follower) failed(ctx context.Context, message string, err error) {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
	case apierrors.IsForbidden(err):
		f.log.Error(message, "error", err.Error(), "hint", hint(f.crds))
	default:
		f.log.Error(message, "error", err.Error())
	}
}
