package conversion

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/kube"
)

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// readCRD returns the definition of a CRD as JSON, or nil if there is none. It lists, because that is what RBAC of most
// installations allows; a list of one name needs no permission for others.
func (r *Registrar) readCRD(ctx context.Context, name string) (definition []byte, err error) {
	raw, err := kube.Send(ctx, r.opts.Client.Get().AbsPath(crdPath).Param("fieldSelector", "metadata.name="+name))
	if apierrors.IsForbidden(err) {
		r.missing(err)
		raw, err = r.getCRD(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return definitionOf(raw)
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
	return definitionOf(list.Items[0])
}

// getCRD returns a whole CRD.
func (r *Registrar) getCRD(ctx context.Context, name string) ([]byte, error) {
	return kube.Send(ctx, r.opts.Client.Get().AbsPath(crdPath, name))
}

// definitionOf keeps the fields of a CRD that a registration writes, and of annotations only its own: schemas are large.
func definitionOf(raw []byte) ([]byte, error) {
	var d definition
	if err := json.Unmarshal(raw, &d, lenient); err != nil {
		return nil, fmt.Errorf("cannot decode a CRD: %w", err)
	}
	if ca, ok := d.Metadata.Annotations[injectCA]; ok {
		d.Metadata.Annotations = map[string]string{injectCA: ca}
	} else {
		d.Metadata.Annotations = nil
	}
	return json.Marshal(&d, lenient)
}

// hint names the RBAC rule that the operator needs.
func hint(crds []string) string {
	return kube.Grant("", kube.Rule{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Names: crds,
		Verbs: []string{"list", "watch", "patch"}})
}
