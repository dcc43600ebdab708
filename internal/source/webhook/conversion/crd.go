package conversion

import (
	"context"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/kube"
)

const (
	crdPath      = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	fieldManager = "shell-operator"
)

// read returns the CRD, or nil if there is none.
func (k *keeper) read(ctx context.Context) (definition []byte, err error) {
	if definition, err = k.List(ctx); !apierrors.IsForbidden(err) {
		return definition, err
	}
	if definition, err = k.get(ctx); apierrors.IsNotFound(err) {
		return nil, nil
	}
	return definition, err
}

func (k *keeper) get(ctx context.Context) ([]byte, error) {
	return kube.Send(ctx, k.Client.Get().AbsPath(crdPath, k.Name))
}

// write patches the CRD. Where RBAC allows only to get and update, as upstream needs, it updates; where not even that, it returns the error
// of the patch.
func (k *keeper) write(ctx context.Context, patch []byte) error {
	_, err := kube.Send(ctx, k.Client.Patch(types.MergePatchType).AbsPath(crdPath, k.Name).
		Param("fieldManager", fieldManager).Body(patch))
	if !apierrors.IsForbidden(err) {
		return err
	}
	whole, failed := k.get(ctx)
	if failed != nil {
		return err
	}
	if whole, failed = jsonpatch.MergePatch(whole, patch); failed != nil {
		return failed
	}
	_, failed = kube.Send(ctx, k.Client.Put().AbsPath(crdPath, k.Name).Param("fieldManager", fieldManager).Body(whole))
	if apierrors.IsForbidden(failed) {
		return err
	}
	return failed
}
