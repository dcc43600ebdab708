package memory

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// converter has the type of the objects of a request. What it makes of typed values does not depend on the type.
type converter struct {
	managedfields.TypeConverter
	typed.ParseableType
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c converter) ObjectToTyped(o runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	return c.FromUnstructured(u, opts...)
}

// asIs neither converts nor defaults objects: there is one version of each. It creates empty ones.
type asIs struct {
	runtime.ObjectConvertor
	empty map[string]any
}

func (asIs) ConvertToVersion(o runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return o, nil
}
func (asIs) Default(runtime.Object)                                {}
func (a asIs) New(schema.GroupVersionKind) (runtime.Object, error) { return objectOf(a.empty), nil }

// manager is the name of a client's field manager.
func (q *request) manager() string {
	agent, _, _ := strings.Cut(q.UserAgent(), "/")
	return cmp.Or(q.URL.Query().Get("fieldManager"), agent)
}

func objectOf(tree map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(tree)} // the library changes it
}

// updated gives the manager of a request the fields that it has changed.
func (q *request) updated(before, after map[string]any) (*stored, error) {
	return q.managed(typeOf(q.kind, before, after), before, func(fields *managedfields.FieldManager) (runtime.Object, error) {
		return fields.Update(objectOf(before), objectOf(after), q.manager())
	})
}

// applied merges what is applied with an object. In tests of hooks fields of fixtures have no manager, so no manager is in
// conflict about them.
func (q *request) applied(t typed.ParseableType, before, config map[string]any) (*stored, error) {
	empty := before
	if q.live {
		empty = q.empty()
	}
	return q.managed(t, empty, func(fields *managedfields.FieldManager) (runtime.Object, error) {
		return fields.Apply(objectOf(before), objectOf(config), q.manager(), q.URL.Query().Get("force") == "true")
	})
}

// managed returns what the library of the API server makes of a change, with the managers of the fields beside it. Requests for status and
// for the rest do not change each other's fields. An object without managers gets a first one, which has what differs from an empty one.
func (q *request) managed(t typed.ParseableType, empty map[string]any,
	change func(*managedfields.FieldManager) (runtime.Object, error)) (*stored, error) {
	gv := q.kind.GroupVersion()
	reset := map[fieldpath.APIVersion]fieldpath.Filter{}
	switch {
	case q.subresource == "status":
		reset[fieldpath.APIVersion(gv.String())] = fieldpath.NewIncludeMatcherFilter(fieldpath.MakePrefixMatcherOrDie("status"))
	case q.kind.Status:
		reset[fieldpath.APIVersion(gv.String())] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
	}
	fields, err := managedfields.NewDefaultFieldManager(converter{managedfields.NewDeducedTypeConverter(), t}, asIs{}, asIs{},
		asIs{empty: empty}, gv.WithKind(q.kind.Kind), gv, q.subresource, reset)
	if err != nil {
		return nil, failed(err)
	}
	o, err := change(fields)
	if err != nil {
		return nil, failed(err)
	}
	s := &stored{kind: q.kind, tree: o.(*unstructured.Unstructured).Object} // as objectOf has made it
	s.takeManagers(!q.live)
	return s, nil
}

// failed is the answer to a request that the library rejects.
func failed(err error) error {
	if errors.As(err, new(*apierrors.StatusError)) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: err.Error()}}
}

// takeManagers moves the managers out of the metadata. Their time becomes moment, as of everything here, if times are counted.
func (o *stored) takeManagers(counted bool) (found bool) {
	metadata := metadataOf(o.tree)
	list, found := metadata["managedFields"].([]any)
	delete(metadata, "managedFields")
	o.managed = list
	if !counted {
		return found
	}
	for _, entry := range list {
		if entry, ok := entry.(map[string]any); ok {
			entry["time"] = moment
		}
	}
	slices.SortStableFunc(list, func(a, b any) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	return found
}

// sameManagers reports whether managers differ in nothing but their times. A manager whose apply changed no value has none.
func sameManagers(a, b []any) bool {
	return slices.EqualFunc(a, b, func(a, b any) bool {
		x, y := maps.Clone(a.(map[string]any)), maps.Clone(b.(map[string]any)) // the library has written them
		delete(x, "time")
		delete(y, "time")
		return reflect.DeepEqual(x, y)
	})
}

func nameOf(entry any) string {
	of, _ := entry.(map[string]any)
	return fmt.Sprint(of["manager"], of["operation"], of["subresource"])
}

// shown is the object as requests read it; the caller does not change it.
func (o *stored) shown() map[string]any {
	if len(o.managed) == 0 {
		return o.tree
	}
	return with(o.tree, "managedFields", o.managed)
}

// apply creates an object by server-side apply, or merges what is applied; then live is set.
func (s *Server) apply(q *request, live *stored) (*stored, error) {
	config, err := decode(q.body)
	if err != nil {
		return nil, fmt.Errorf("error decoding YAML: %w", err)
	}
	before := q.empty()
	if live != nil {
		before = live.shown()
	}
	metadata := metadataOf(config)
	uid, _ := metadata["uid"].(string)
	switch {
	case q.live && q.URL.Query().Get("fieldManager") == "":
		return nil, invalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "",
			field.Required(field.NewPath("fieldManager"), "is required for apply patch"))
	case live == nil && uid != "":
		return nil, apierrors.NewConflict(q.at.GroupResource, q.at.name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	case metadata["managedFields"] != nil:
		return nil, errors.New("metadata.managedFields must be nil")
	}
	if err := q.matches(config); err != nil {
		return nil, err
	}
	if err := s.check(q, before, config); err != nil {
		return nil, err
	}
	t := typeOf(q.kind, before, config)
	next, err := q.applied(t, before, config)
	if err != nil {
		return nil, err
	}
	if q.kind.schema != nil {
		q.errs = patchMeta(t).emptied(config, next.tree, nil)
	}
	if err := q.canonical(next.tree); err != nil {
		return nil, err
	}
	if live != nil {
		if err := q.current(live, next.tree); err != nil {
			return nil, err
		}
		next.tree = q.merge(live.tree, next.tree)
	}
	return next, nil
}
