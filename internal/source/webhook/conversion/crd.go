package conversion

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/shell-operator/shell-operator/internal/kube"
)

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// crd is a CRD as far as we look at it: schemas are large.
type crd struct {
	name, resourceVersion string
	// seen is the JSON text of a definition.
	seen []byte
}

// The reflector wants a runtime.Object whose metadata it can read.
func (c *crd) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (c *crd) DeepCopyObject() runtime.Object   { d := *c; return &d }
func (c *crd) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: c.name, ResourceVersion: c.resourceVersion}
}

// crdList is a list of those.
type crdList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

func (l *crdList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	return &c
}

// readCRD keeps what we look at, and of annotations the one that we set.
func readCRD(raw []byte) (*crd, error) {
	var whole struct {
		Metadata struct {
			Name            string            `json:"name"`
			ResourceVersion string            `json:"resourceVersion"`
			Annotations     map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Conversion jsontext.Value `json:"conversion"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &whole, lenient); err != nil {
		return nil, fmt.Errorf("cannot read a CRD: %w", err)
	}
	var d definition
	if ca, ok := whole.Metadata.Annotations[injectCA]; ok {
		d.Metadata.Annotations = map[string]string{injectCA: ca}
	}
	d.Spec.Conversion = whole.Spec.Conversion
	seen, err := json.Marshal(&d, lenient)
	return &crd{whole.Metadata.Name, whole.Metadata.ResourceVersion, seen}, err
}

func readCRDList(raw []byte) (*crdList, error) {
	var whole struct {
		Metadata metav1.ListMeta  `json:"metadata"`
		Items    []jsontext.Value `json:"items"`
	}
	if err := json.Unmarshal(raw, &whole, lenient); err != nil {
		return nil, fmt.Errorf("cannot read the list of CRDs: %w", err)
	}
	list := &crdList{ListMeta: whole.Metadata}
	for _, item := range whole.Items {
		c, err := readCRD(item)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, c)
	}
	return list, nil
}

// getCRD returns a CRD as it is.
func (r *Registrar) getCRD(ctx context.Context, name string) ([]byte, error) {
	return kube.Send(ctx, r.opts.Client.Get().AbsPath(crdPath, name))
}

// olderThan tells whether the API server had c before other.
func (c *crd) olderThan(other *crd) bool {
	order, err := resourceversion.CompareResourceVersion(c.resourceVersion, other.resourceVersion)
	return err == nil && order < 0
}

// hint names the RBAC rule that the operator needs.
func hint(crds []string) string {
	return fmt.Sprintf(`give the operator's ServiceAccount, by a ClusterRole, the rule {apiGroups: ["apiextensions.k8s.io"], resources: ["customresourcedefinitions"], resourceNames: ["%s"], verbs: ["list", "watch", "patch"]}`,
		strings.Join(crds, `", "`))
}
