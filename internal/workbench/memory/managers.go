package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Managers are kept by the library that the API server uses, without schemas: maps are merged, lists belong to one manager.

// asIs converts no object: there is one version of each.
type asIs struct{}

func (asIs) Convert(o *typed.TypedValue, _ fieldpath.APIVersion) (*typed.TypedValue, error) {
	return o, nil
}
func (asIs) IsMissingVersionError(error) bool { return false }

// unmanaged are fields without a manager.
var unmanaged = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"), fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "namespace"),
	fieldpath.MakePathOrDie("metadata", "uid"), fieldpath.MakePathOrDie("metadata", "resourceVersion"), fieldpath.MakePathOrDie("metadata", "creationTimestamp"),
	fieldpath.MakePathOrDie("metadata", "generation"), fieldpath.MakePathOrDie("metadata", "managedFields"), fieldpath.MakePathOrDie("metadata", "deletionTimestamp"),
)

func updater() *merge.Updater {
	return (&merge.UpdaterBuilder{Converter: asIs{}, IgnoredFields: map[fieldpath.APIVersion]*fieldpath.Set{"": unmanaged}, ReturnInputOnNoop: true}).BuildUpdater()
}

// number begins the text of a number, whose digits the library would change.
const number = "\x00number "

func typedOf(tree map[string]any) (*typed.TypedValue, error) {
	return typed.DeducedParseableType.FromUnstructured(numbers(clone(tree), func(v any) any {
		if n, ok := v.(json.Number); ok {
			return number + string(n)
		}
		return v
	}))
}

func treeOf(v *typed.TypedValue) map[string]any {
	tree, _ := numbers(v.AsValue().Unstructured(), func(v any) any {
		if text, ok := v.(string); ok && strings.HasPrefix(text, number) {
			return json.Number(strings.TrimPrefix(text, number))
		}
		return v
	}).(map[string]any)
	return tree
}

// numbers replaces the leaves of a tree.
func numbers(tree any, replace func(any) any) any {
	switch tree := tree.(type) {
	case map[string]any:
		for name, value := range tree {
			tree[name] = numbers(value, replace)
		}
	case []any:
		for i, value := range tree {
			tree[i] = numbers(value, replace)
		}
	default:
		return replace(tree)
	}
	return tree
}

// manager is the identity of a manager: its name, operation and subresource.
func (q *request) manager(operation metav1.ManagedFieldsOperationType) string {
	return strings.Join([]string{q.URL.Query().Get("fieldManager"), string(operation), q.subresource}, "\n")
}

// updated gives the manager of a request the fields that it has changed.
func (o *stored) updated(q *request, before, after map[string]any) *apierrors.StatusError {
	old, err := typedOf(before)
	if err != nil {
		return q.bad(err)
	}
	next, err := typedOf(after)
	if err != nil {
		return q.bad(err)
	}
	if o.managers == nil {
		o.managers = fieldpath.ManagedFields{}
	}
	if _, o.managers, err = updater().Update(old, next, "", o.managers, q.manager(metav1.ManagedFieldsOperationUpdate)); err != nil {
		return q.bad(err)
	}
	return nil
}

// applyNew creates an object by server-side apply.
func (s *Server) applyNew(q *request) (any, *apierrors.StatusError) {
	body, err := decode(q.body)
	if err != nil {
		return nil, q.bad(err)
	}
	metadata := metadataOf(body)
	if uid, _ := metadata["uid"].(string); uid != "" {
		return nil, apierrors.NewConflict(q.at.GroupResource, q.at.name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if metadata["name"] = q.at.name; q.kind.Namespaced {
		metadata["namespace"] = q.at.namespace
	}
	if q.kind.Status {
		delete(body, "status")
	}
	o := &stored{kind: q.kind, tree: body}
	if _, err := s.applied(q, o, map[string]any{}, body); err != nil {
		return nil, err
	}
	if !q.dryRun {
		s.store(q.at, o)
	}
	return created{o.shown()}, nil
}

// apply merges what is applied: maps are merged, lists replaced, and what was applied before and is missing now is removed.
func (s *Server) apply(q *request, next *stored, seen map[string]any) (map[string]any, *apierrors.StatusError) {
	config, err := decode(q.body)
	if err != nil {
		return nil, q.bad(err)
	}
	given, is := metadataOf(config), metadataOf(seen)
	switch {
	case given["uid"] != nil && given["uid"] != is["uid"]:
		failure := apierrors.NewInvalid(q.kind.GroupVersion().WithKind(q.kind.Kind).GroupKind(), q.at.name, nil)
		failure.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid", Message: "field is immutable"}}
		return nil, failure
	case given["resourceVersion"] != nil && given["resourceVersion"] != is["resourceVersion"]:
		return nil, apierrors.NewConflict(q.at.GroupResource, q.at.name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	for _, field := range []string{"uid", "resourceVersion"} {
		delete(given, field)
	}
	last := next.managers[q.manager(metav1.ManagedFieldsOperationApply)]
	exact := replaces(seen, config, nil, last)
	after, failure := s.applied(q, next, seen, config)
	if failure == nil && !q.dryRun && !exact {
		s.approximate[(&Object{Kind: next.kind, Namespace: q.at.namespace, Name: q.at.name}).Ref()] = true
	}
	return after, failure
}

func (s *Server) applied(q *request, o *stored, before, config map[string]any) (map[string]any, *apierrors.StatusError) {
	live, err := typedOf(before)
	if err != nil {
		return nil, q.bad(err)
	}
	wanted, err := typedOf(config)
	if err != nil {
		return nil, q.bad(err)
	}
	if o.managers == nil {
		o.managers = fieldpath.ManagedFields{}
	}
	result, managers, err := updater().Apply(live, wanted, "", o.managers, q.manager(metav1.ManagedFieldsOperationApply), q.URL.Query().Get("force") == "true")
	var conflicts merge.Conflicts
	if errors.As(err, &conflicts) {
		var causes []metav1.StatusCause
		for _, c := range conflicts {
			name, _, _ := strings.Cut(c.Manager, "\n")
			causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: fmt.Sprintf("conflict with %q", name), Field: c.Path.String()})
		}
		return nil, apierrors.NewApplyConflict(causes, fmt.Sprintf("Apply failed with %d conflicts: %s: %s", len(causes), causes[0].Message, causes[0].Field))
	}
	if err != nil {
		return nil, q.bad(err)
	}
	o.managers = managers
	return treeOf(result), nil
}

// replaces reports whether an apply replaces no list of another manager: an API server merges some lists by keys.
func replaces(live, config map[string]any, at fieldpath.Path, last fieldpath.VersionedSet) bool {
	exact := true
	for field, value := range config {
		path := append(slices.Clip(at), fieldpath.PathElement{FieldName: &field})
		was, is := live[field].(map[string]any)
		wanted, isMap := value.(map[string]any)
		if is && isMap {
			exact = replaces(was, wanted, path, last) && exact
			continue
		}
		if list, isList := live[field].([]any); isList && !reflect.DeepEqual(list, value) && (last == nil || !last.Set().Has(path)) {
			exact = false
		}
	}
	return exact
}

// shown is the object as requests read it.
func (o *stored) shown() map[string]any {
	tree := clone(o.tree)
	if len(o.managers) > 0 {
		metadataOf(tree)["managedFields"] = entries(o)
	}
	return tree
}

// entries are the managers of an object as in its metadata.
func entries(o *stored) (list []any) {
	for _, id := range slices.Sorted(maps.Keys(o.managers)) {
		parts := strings.Split(id, "\n")
		fields, err := o.managers[id].Set().ToJSON()
		if err != nil {
			continue
		}
		entry := map[string]any{
			"manager": parts[0], "operation": parts[1], "apiVersion": o.kind.GroupVersion().String(), "time": moment, "fieldsType": "FieldsV1", "fieldsV1": json.RawMessage(fields),
		}
		if parts[2] != "" {
			entry["subresource"] = parts[2]
		}
		list = append(list, entry)
	}
	return list
}

// manage sets the managers to those of a request. An empty list changes nothing, one empty entry removes all.
func (o *stored) manage(list any) error {
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	var given []metav1.ManagedFieldsEntry
	if err := json.Unmarshal(text, &given); err != nil {
		return fmt.Errorf("metadata.managedFields: %w", err)
	}
	if len(given) == 0 {
		return nil
	}
	o.managers = fieldpath.ManagedFields{}
	for _, e := range given {
		if e.FieldsV1 == nil {
			continue
		}
		fields := &fieldpath.Set{}
		if err := fields.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			return fmt.Errorf("metadata.managedFields: %w", err)
		}
		id := strings.Join([]string{e.Manager, string(e.Operation), e.Subresource}, "\n")
		o.managers[id] = fieldpath.NewVersionedSet(fields, "", e.Operation == metav1.ManagedFieldsOperationApply)
	}
	return nil
}
