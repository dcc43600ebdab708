package memory

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
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
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// converter has the type of the objects of a request.
type converter struct{ typed.ParseableType }

var _ managedfields.TypeConverter = converter{}

// ObjectToTyped implements managedfields.TypeConverter.
func (c converter) ObjectToTyped(o runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("a %T is no object of this server", o)
	}
	return c.FromUnstructured(u.Object, opts...)
}

// TypedToObject implements managedfields.TypeConverter.
func (c converter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	tree, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, errors.New("it is no object")
	}
	return &unstructured.Unstructured{Object: tree}, nil
}

// asIs neither converts nor defaults objects: there is one version of each.
type asIs struct{ runtime.ObjectConvertor }

func (asIs) ConvertToVersion(o runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return o, nil
}
func (asIs) Default(runtime.Object) {}
func (asIs) New(schema.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{Object: map[string]any{}}, nil
}

// fields returns the manager of the fields of objects, which the library of the API server is. Requests for status and for the rest do not
// change each other's fields.
func (q *request) fields(t typed.ParseableType) (*managedfields.FieldManager, error) {
	gv := q.kind.GroupVersion()
	reset := map[fieldpath.APIVersion]fieldpath.Filter{}
	switch {
	case q.subresource == "status":
		reset[fieldpath.APIVersion(gv.String())] = fieldpath.NewIncludeMatcherFilter(fieldpath.MakePrefixMatcherOrDie("status"))
	case q.kind.Status:
		reset[fieldpath.APIVersion(gv.String())] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
	}
	return managedfields.NewDefaultFieldManager(converter{t}, asIs{}, asIs{}, asIs{}, gv.WithKind(q.kind.Kind), gv, q.subresource, reset)
}

// manager is the name of a client's field manager.
func (q *request) manager() string {
	agent, _, _ := strings.Cut(q.UserAgent(), "/")
	return cmp.Or(q.URL.Query().Get("fieldManager"), agent)
}

func objectOf(tree map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(tree)} // the library changes it
}

// updated gives the manager of a request the fields that it has changed.
func (q *request) updated(before, after map[string]any) (*stored, *apierrors.StatusError) {
	t, _ := typeOf(q.kind, before, after)
	fields, err := q.fields(t)
	if err != nil {
		return nil, failed(err)
	}
	o, err := fields.Update(objectOf(before), objectOf(after), q.manager())
	if err != nil {
		return nil, failed(err)
	}
	return q.split(o)
}

// applied merges what is applied with an object. Fields of fixtures have no manager, so no manager is in conflict about them.
func (q *request) applied(t typed.ParseableType, before, config map[string]any) (*stored, *apierrors.StatusError) {
	fields, err := q.fields(t)
	if err != nil {
		return nil, failed(err)
	}
	force := q.URL.Query().Get("force") == "true"
	o, err := fields.Apply(objectOf(before), objectOf(config), q.manager(), force)
	if !force && onlyFixtures(err) {
		o, err = fields.Apply(objectOf(before), objectOf(config), q.manager(), true)
	}
	if err != nil {
		return nil, failed(err)
	}
	return q.split(o)
}

// onlyFixtures reports whether an error is a conflict about fields without a manager.
func onlyFixtures(err error) bool {
	var conflict *apierrors.StatusError
	if !errors.As(err, &conflict) || !apierrors.IsConflict(err) || conflict.ErrStatus.Details == nil {
		return false
	}
	return !slices.ContainsFunc(conflict.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool {
		return !strings.HasPrefix(c.Message, `conflict with "before-first-apply"`)
	})
}

// failed is the answer to a request that the library rejects.
func failed(err error) *apierrors.StatusError {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return status
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: err.Error()}}
}

// split stores the managers of an object beside it.
func (q *request) split(o runtime.Object) (*stored, *apierrors.StatusError) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, failed(fmt.Errorf("a %T is no object of this server", o))
	}
	s := &stored{kind: q.kind, tree: u.Object}
	s.takeManagers()
	return s, nil
}

// takeManagers moves the managers out of the metadata. Their time is that of everything here.
func (o *stored) takeManagers() (found bool) {
	metadata := metadataOf(o.tree)
	list, found := metadata["managedFields"].([]any)
	delete(metadata, "managedFields")
	for _, entry := range list {
		if entry, ok := entry.(map[string]any); ok {
			entry["time"] = moment
		}
	}
	slices.SortStableFunc(list, func(a, b any) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	o.managed = list
	return found
}

func nameOf(entry any) string {
	of, _ := entry.(map[string]any)
	return fmt.Sprint(of["manager"], of["operation"], of["subresource"])
}

// shown is the object as requests read it.
func (o *stored) shown() map[string]any {
	tree := runtime.DeepCopyJSON(o.tree)
	if len(o.managed) > 0 {
		metadataOf(tree)["managedFields"] = runtime.DeepCopyJSONValue(o.managed)
	}
	return tree
}

// apply creates an object by server-side apply, or merges what is applied; then live is set.
func (s *Server) apply(q *request, live *stored) (*stored, *apierrors.StatusError) {
	config, err := decode(q.body)
	if err != nil {
		return nil, q.bad(err)
	}
	before := q.empty()
	if live != nil {
		before = live.shown()
	}
	if err := q.precondition(config, before, live != nil); err != nil {
		return nil, err
	}
	metadata := metadataOf(config)
	if metadata["name"] = q.at.name; q.kind.Namespaced {
		metadata["namespace"] = q.at.namespace
	}
	if err := s.check(q, before, config); err != nil {
		return nil, err
	}
	t, deduced := typeOf(q.kind, before, config)
	next, failure := q.applied(t, before, config)
	if failure != nil {
		return nil, failure
	}
	next.tree = q.merge(before, next.tree)
	delete(metadataOf(next.tree), "managedFields")
	if deduced && !q.dryRun && !replacesNone(before, config, nil, last(before, q.manager())) {
		s.approximate[(&Object{Kind: q.kind, Namespace: q.at.namespace, Name: q.at.name}).Ref()] = true
	}
	return next, nil
}

// precondition checks the uid and the resource version of what is applied, and removes them.
func (q *request) precondition(config, before map[string]any, exists bool) *apierrors.StatusError {
	given, is := metadataOf(config), metadataOf(before)
	uid, _ := given["uid"].(string)
	switch {
	case !exists && uid != "":
		return apierrors.NewConflict(q.at.GroupResource, q.at.name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	case exists && given["uid"] != nil && given["uid"] != is["uid"]:
		failure := apierrors.NewInvalid(q.kind.GroupVersion().WithKind(q.kind.Kind).GroupKind(), q.at.name, nil)
		failure.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid",
			Message: "field is immutable"}}
		return failure
	case exists && given["resourceVersion"] != nil && given["resourceVersion"] != is["resourceVersion"]:
		return q.modified()
	}
	for _, field := range []string{"uid", "resourceVersion"} {
		delete(given, field)
	}
	return nil
}

// last returns the fields that a manager has applied to an object.
func last(tree map[string]any, manager string) *fieldpath.Set {
	set := fieldpath.NewSet()
	for _, e := range (&unstructured.Unstructured{Object: tree}).GetManagedFields() {
		if e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && e.FieldsV1 != nil {
			_ = set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())) // the library has written it
		}
	}
	return set
}

// replacesNone reports whether an apply replaces no list of another manager: an API server merges some lists by keys.
func replacesNone(live, config map[string]any, at fieldpath.Path, last *fieldpath.Set) bool {
	none := true
	for field, value := range config {
		path := append(slices.Clip(at), fieldpath.PathElement{FieldName: &field})
		was, is := live[field].(map[string]any)
		wanted, isMap := value.(map[string]any)
		if is && isMap {
			none = replacesNone(was, wanted, path, last) && none
			continue
		}
		if list, isList := live[field].([]any); isList && !reflect.DeepEqual(list, value) && !last.Has(path) {
			none = false
		}
	}
	return none
}
