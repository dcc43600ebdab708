package memory

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// goType returns a value of the Go type of a kind; nil if this package does not use it. Objects of exact types are read, and written, as by
// an API server; the others are those that kubectl creates without a file.
func goType(k schema.GroupKind) (o any, exact bool) {
	switch k {
	case schema.GroupKind{Kind: "ConfigMap"}:
		return &corev1.ConfigMap{}, true
	case schema.GroupKind{Kind: "Secret"}:
		return &corev1.Secret{}, true
	case schema.GroupKind{Kind: "Namespace"}:
		return &corev1.Namespace{}, true
	case schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}:
		return &coordinationv1.Lease{}, true
	case schema.GroupKind{Kind: "Pod"}:
		return &corev1.Pod{}, false
	case schema.GroupKind{Kind: "Service"}:
		return &corev1.Service{}, false
	case schema.GroupKind{Kind: "ServiceAccount"}:
		return &corev1.ServiceAccount{}, false
	case schema.GroupKind{Kind: "DeleteOptions"}:
		return &metav1.DeleteOptions{}, false
	case schema.GroupKind{Group: "authorization.k8s.io", Kind: "SelfSubjectAccessReview"}:
		return &authorizationv1.SelfSubjectAccessReview{}, false
	}
	return nil, false
}

// exact is the Go type of the kind of the request, on a live server; nil if that is not exact.
func (q *request) exact() any {
	if o, exact := goType(q.groupKind()); exact && q.live {
		return o
	}
	return nil
}

func (q *request) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: q.kind.Group, Kind: q.kind.Kind}
}

// canonical makes an object what an API server makes of it when it decodes it: fields of metadata that are not set, or unknown, are absent.
// On a live server so are fields of kinds with exact types, and they have defaults; in tests of hooks they stay as they are written.
func (q *request) canonical(tree map[string]any) error {
	converter := runtime.DefaultUnstructuredConverter
	metadata := metadataOf(tree)
	managed, hasManaged := metadata["managedFields"]
	delete(metadata, "managedFields") // an empty list has a meaning
	typedValue, given := q.exact(), tree
	if typedValue == nil {
		typedValue, given = &metav1.ObjectMeta{}, metadata
	}
	if err := converter.FromUnstructured(given, typedValue); err != nil {
		if q.isApply() {
			return failed(err)
		}
		return q.undecodable(err)
	}
	for _, name := range unchangeable {
		given, isMap := tree[name].(map[string]any)
		if isDefault := name == "data" && q.at.Resource == "configmaps"; isMap && len(given) == 0 && !isDefault {
			q.emptied = append(q.emptied, name)
		}
	}
	setDefaults(typedValue)
	after, err := converter.ToUnstructured(typedValue)
	if err != nil {
		return failed(err)
	}
	maps.DeleteFunc(given, func(string, any) bool { return true })
	maps.Copy(given, after)
	if metadata = metadataOf(tree); metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
	if hasManaged {
		metadata["managedFields"] = managed
	}
	return nil
}

// setDefaults sets the defaults that an API server sets.
func setDefaults(object any) {
	switch o := object.(type) {
	case *corev1.Secret:
		if o.Type == "" {
			o.Type = corev1.SecretTypeOpaque
		}
		for name, value := range o.StringData {
			if o.Data == nil {
				o.Data = map[string][]byte{}
			}
			o.Data[name] = []byte(value)
		}
		o.StringData = nil
	case *corev1.Namespace:
		if o.Name != "" {
			if o.Labels == nil {
				o.Labels = map[string]string{}
			}
			o.Labels[corev1.LabelMetadataName] = o.Name
		}
	}
}

// initial adds what an API server gives a new object of its kind, whose managers do not own it.
func (q *request) initial(tree map[string]any) {
	switch {
	case q.at.GroupResource == namespaces && q.live:
		spec, _ := tree["spec"].(map[string]any)
		finalizers, _ := spec["finalizers"].([]any)
		tree["spec"] = map[string]any{"finalizers": append(finalizers, "kubernetes")}
		tree["status"] = map[string]any{"phase": "Active"}
	case q.kind.Status:
		delete(tree, "status")
	}
}

// matches rejects an object of another name, namespace, kind or version than the path of the request, and sets what it does not have.
func (q *request) matches(tree map[string]any) error {
	metadata, gv := metadataOf(tree), q.kind.GroupVersion().String()
	o := unstructured.Unstructured{Object: tree}
	switch {
	case q.subresource == "scale":
		return nil
	case q.kind.Custom && (o.GetKind() == "" || o.GetAPIVersion() == ""):
		return errors.New("Object 'Kind' or 'apiVersion' is missing in the body")
	case o.GetAPIVersion() != "" && o.GetAPIVersion() != gv:
		return fmt.Errorf("the API version in the data (%s) does not match the expected API version (%s)", o.GetAPIVersion(), gv)
	case o.GetKind() != "" && o.GetKind() != q.kind.Kind:
		return fmt.Errorf("%s in version %q cannot be handled as a %s", o.GetKind(), q.kind.Version, q.kind.Kind)
	case q.kind.Namespaced && o.GetNamespace() != "" && o.GetNamespace() != q.at.namespace:
		return errors.New("the namespace of the provided object does not match the namespace sent on the request")
	case q.at.name != "" && o.GetName() != "" && o.GetName() != q.at.name:
		return fmt.Errorf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), q.at.name)
	}
	tree["apiVersion"], tree["kind"] = gv, q.kind.Kind
	if q.at.name != "" {
		metadata["name"] = q.at.name
	}
	if delete(metadata, "namespace"); q.kind.Namespaced {
		metadata["namespace"] = q.at.namespace
	}
	return nil
}

// current rejects an object that is made for another version, or another object of its name, than the one that is stored.
func (q *request) current(live *stored, after map[string]any) error {
	is := metadataOf(live.tree)
	version, _ := metadataOf(after)["resourceVersion"].(string)
	switch {
	case version == "" && q.live && q.subresource != "scale" && (q.kind.Custom || q.createsOnUpdate()):
		return invalid(schema.GroupKind{Group: q.at.Group, Kind: q.at.Resource}, q.at.name,
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"))
	case version != "" && version != is["resourceVersion"]:
		return q.modified()
	}
	return nil
}

// createsOnUpdate reports whether PUT creates objects of the kind.
func (q *request) createsOnUpdate() bool {
	return q.groupKind() == schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}
}

func invalid(k schema.GroupKind, name string, errs ...*field.Error) error {
	return apierrors.NewInvalid(k, name, errs)
}

// names returns the rule for names of the kind.
func (q *request) names() validation.ValidateNameFunc {
	switch {
	case q.at.GroupResource == namespaces:
		return validation.ValidateNamespaceName
	case q.at.GroupResource == schema.GroupResource{Resource: "services"}:
		return validation.NameIsDNS1035Label
	case q.kind.Group == "rbac.authorization.k8s.io":
		return path.ValidatePathSegmentName //nolint:staticcheck // as an API server has it
	}
	return validation.NameIsDNSSubdomain
}

// unchangeable are the fields of a ConfigMap or Secret that is immutable.
var unchangeable = []string{"immutable", "data", "binaryData"}

// validate checks metadata, and fields that are immutable. Without live the object is new.
func (q *request) validate(live *stored, tree map[string]any) error {
	at := field.NewPath("metadata")
	o := &unstructured.Unstructured{Object: tree}
	rule := q.names()
	if live != nil {
		rule = path.ValidatePathSegmentName //nolint:staticcheck // as an API server has it
	}
	errs := append(q.errs, validation.ValidateObjectMetaAccessor(o, q.kind.Namespaced, rule, at)...)
	if live != nil {
		before := live.tree
		errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(o, &unstructured.Unstructured{Object: before}, at)...)
		differs := func(name string) bool { return !reflect.DeepEqual(before[name], tree[name]) }
		if before["type"] != nil && q.at.GroupResource.String() == "secrets" && differs("type") {
			errs = append(errs, validation.ValidateImmutableField(tree["type"], before["type"], field.NewPath("type"))...)
		}
		if q.exact() != nil && before["immutable"] == true {
			for _, name := range unchangeable {
				if differs(name) || slices.Contains(q.emptied, name) { // an API server distinguishes empty from absent
					errs = append(errs, field.Forbidden(field.NewPath(name), "field is immutable when `immutable` is set"))
				}
			}
		}
	}
	if q.createsOnUpdate() {
		spec, _ := tree["spec"].(map[string]any)
		if seconds, given := spec["leaseDurationSeconds"].(int64); given && seconds <= 0 {
			errs = append(errs, field.Invalid(field.NewPath("spec", "leaseDurationSeconds"), seconds, "must be greater than 0"))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	name, _ := metadataOf(tree)["name"].(string)
	return invalid(q.groupKind(), name, errs...)
}
