package conversion

import (
	"context"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/kube"
)

const (
	crdPath      = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	fieldManager = "shell-operator"
)

// read returns the CRD, or nil if there is none. It lists, because that is what RBAC of most installations allows; a list of one name needs
// no permission for others.
func (k *keeper) read(ctx context.Context) (definition []byte, err error) {
	raw, err := kube.Send(ctx, k.opts.Client.Get().AbsPath(crdPath).Param("fieldSelector", "metadata.name="+k.name))
	if apierrors.IsForbidden(err) {
		if raw, err = k.get(ctx); apierrors.IsNotFound(err) {
			return nil, nil
		}
		return raw, err
	}
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []jsontext.Value `json:"items"`
	}
	if err := json.Unmarshal(raw, &list, lenient); err != nil {
		return nil, fmt.Errorf("cannot decode the list of CRDs: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return list.Items[0], nil
}

func (k *keeper) get(ctx context.Context) ([]byte, error) {
	return kube.Send(ctx, k.opts.Client.Get().AbsPath(crdPath, k.name))
}

// write patches the CRD. Where RBAC allows only to get and update, as upstream needs, it updates; where not even that, it returns the error
// of the patch.
func (k *keeper) write(ctx context.Context, patch []byte) error {
	_, err := kube.Send(ctx, k.opts.Client.Patch(types.MergePatchType).AbsPath(crdPath, k.name).
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
	_, failed = kube.Send(ctx, k.opts.Client.Put().AbsPath(crdPath, k.name).Param("fieldManager", fieldManager).Body(whole))
	if apierrors.IsForbidden(failed) {
		return err
	}
	return failed
}
