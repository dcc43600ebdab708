package memory

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4" // which an API server uses
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func fieldInvalid(name string, value any, detail string) *field.Error {
	return field.Invalid(field.NewPath(name), value, detail)
}

// empty is an object before it is created.
func (q *request) empty() map[string]any {
	tree := map[string]any{}
	if o := q.exact(); o != nil {
		tree, _ = runtime.DefaultUnstructuredConverter.ToUnstructured(o) // it is an empty struct
	}
	tree["apiVersion"], tree["kind"], tree["metadata"] = q.kind.GroupVersion().String(), q.kind.Kind, map[string]any{}
	return tree
}

// check rejects unknown and mistyped fields of an object. A live server does what the parameter fieldValidation says, the others as Strict.
func (s *Server) check(q *request, before, tree map[string]any) error {
	if q.subresource == "scale" {
		return nil
	}
	found, known := s.mistakes(q.kind, key{namespace: q.at.namespace, name: cmp.Or(q.at.name, "(new)")}, before, tree)
	directive := q.URL.Query().Get("fieldValidation")
	switch text := "strict decoding error: " + strings.Join(found, ", "); {
	case len(found) == 0:
		return nil
	case s.live && directive != metav1.FieldValidationStrict && known != nil:
		for _, text := range found {
			if directive != metav1.FieldValidationIgnore {
				q.warnings = append(q.warnings, fmt.Sprintf("299 - %q", text))
			}
		}
		clear(tree)
		maps.Copy(tree, known)
		return nil
	default:
		return q.undecodable(errors.New(text))
	}
}

// undecodable is the answer to an object that is not of its type.
func (q *request) undecodable(err error) error {
	if q.Method == http.MethodPatch && !q.isApply() {
		return invalid(schema.GroupKind{}, "", fieldInvalid("patch", "", err.Error()))
	}
	return fmt.Errorf("%s in version %q cannot be handled as a %s: %w", q.kind.Kind, q.kind.GroupVersion(), q.kind.Kind, err)
}

func (q *request) patchType() types.PatchType {
	media, _, _ := strings.Cut(q.Header.Get("Content-Type"), ";")
	return types.PatchType(media)
}

func (q *request) isApply() bool {
	return q.Method == http.MethodPatch && q.patchType() == types.ApplyPatchType
}

func (s *Server) create(q *request) (any, error) {
	o, err := s.edit(q, nil)
	if err != nil {
		return nil, err
	}
	return s.made(q, o)
}

// made stores a new object, unless the request is a dry run.
func (s *Server) made(q *request, o *stored) (any, error) {
	metadata := metadataOf(o.tree)
	if version, _ := metadata["resourceVersion"].(string); version != "" && version != "0" && q.Method == http.MethodPost {
		return nil, apierrors.NewInternalError(errors.New("resourceVersion should not be set on objects to be created"))
	}
	for _, field := range kept {
		delete(metadata, field)
	}
	if prefix, _ := metadata["generateName"].(string); prefix != "" && metadata["name"] == nil {
		metadata["name"] = fmt.Sprintf("%s%05d", prefix, s.uids+1)
		if s.live {
			metadata["name"] = prefix + rand.String(5)
		}
	}
	q.initial(o.tree)
	q.at = keyOf(q.kind, o.tree)
	if err := s.accepts(q); err != nil {
		return nil, err
	}
	if err := q.validate(nil, o.tree); err != nil {
		return nil, err
	}
	if s.objects[q.at] != nil {
		return nil, apierrors.NewAlreadyExists(q.at.GroupResource, q.at.name)
	}
	if q.dryRun {
		s.complete(q.at, o)
	} else {
		s.store(q.at, o)
	}
	q.status = http.StatusCreated
	return o.shown(), nil
}

// one serves a request for one object.
func (s *Server) one(q *request) (any, error) {
	live := s.objects[q.at]
	change := s.edit
	if q.isApply() {
		change = s.apply
	}
	served := map[string]bool{"": true, "status": q.kind.Status || q.kind.Guessed, "scale": q.kind.Scale || q.kind.Guessed}[q.subresource]
	creates := q.subresource == "" && (q.isApply() || q.Method == http.MethodPut && q.createsOnUpdate())
	switch isPatch := q.Method == http.MethodPatch; {
	case !served && q.kind.Custom:
		return nil, apierrors.NewNotFound(q.at.GroupResource, q.at.name)
	case isPatch && !q.patches():
		return nil, response(http.StatusUnsupportedMediaType, errors.New("the body of the request was in an unknown format"))
	case !served:
		return nil, q.missing("")
	case live == nil && !creates:
		return nil, apierrors.NewNotFound(q.at.GroupResource, q.at.name)
	case q.Method == http.MethodGet:
		return q.view(q.read(live)), nil
	case q.Method == http.MethodDelete && q.subresource == "":
		return s.delete(q, live)
	case q.Method != http.MethodPut && !isPatch:
		return nil, apierrors.NewMethodNotSupported(q.at.GroupResource, strings.ToLower(q.Method))
	}
	next, err := change(q, live)
	if err != nil {
		return nil, err
	}
	if live == nil {
		return s.made(q, next)
	}
	revised(live, next)
	if err := q.validate(live, next.tree); err != nil {
		return nil, err
	}
	if !q.dryRun {
		next = s.update(q.at, live, next)
	}
	return q.view(q.read(next)), nil
}

// view is what a request reads: the object, or its Scale.
func (q *request) view(tree map[string]any) map[string]any {
	if q.subresource != "scale" {
		return tree
	}
	scale := map[string]any{"spec": map[string]any{}, "status": map[string]any{"replicas": int64(0)}, "metadata": map[string]any{}}
	for _, field := range [][]string{{"spec", "replicas"}, {"status", "replicas"}, {"metadata", "name"}, {"metadata", "namespace"},
		{"metadata", "uid"}, {"metadata", "resourceVersion"}} {
		value, given, _ := unstructured.NestedFieldNoCopy(tree, field...)
		switch {
		case field[0] == "spec" && !given:
			value = int64(1)
		case field[0] == "spec" && value == int64(0), !given:
			continue
		}
		_ = unstructured.SetNestedField(scale, value, field...) // these are objects
	}
	scale["apiVersion"], scale["kind"] = "autoscaling/v1", "Scale"
	return scale
}

// merge takes from after what a request may write.
func (q *request) merge(live, after map[string]any) map[string]any {
	take := func(from, to map[string]any, field string) {
		delete(to, field)
		if value, ok := from[field]; ok {
			to[field] = value
		}
	}
	switch {
	case q.subresource == "status":
		tree := runtime.DeepCopyJSON(live)
		take(after, tree, "status")
		if !q.kind.Custom && !q.kind.Guessed {
			take(after, tree, "metadata")
		}
		return tree
	case q.subresource == "scale":
		tree := runtime.DeepCopyJSON(live)
		unstructured.RemoveNestedField(tree, "spec", "replicas")
		if replicas, given, _ := unstructured.NestedFieldNoCopy(after, "spec", "replicas"); given {
			_ = unstructured.SetNestedField(tree, replicas, "spec", "replicas") // another spec was rejected
		}
		return tree
	case q.at.GroupResource == namespaces && q.live:
		take(live, after, "spec")
		take(live, after, "status")
	case q.kind.Status:
		take(live, after, "status")
	}
	for _, field := range []string{"apiVersion", "kind"} {
		take(live, after, field)
	}
	return after
}

// edit returns what a request that is no apply makes of an object; without live, the object is new.
func (s *Server) edit(q *request, live *stored) (*stored, error) {
	before := q.empty()
	if live != nil {
		before = q.read(live)
	}
	seen := q.view(before)
	after, err := q.edited(seen)
	if err == nil {
		err = q.matches(after)
	}
	if err == nil {
		err = s.check(q, before, after)
	}
	if err == nil {
		err = q.canonical(after)
	}
	if err != nil {
		return nil, err
	}
	is, _ := metadataOf(seen)["uid"].(string)
	if uid, _ := metadataOf(after)["uid"].(string); q.Method == http.MethodPut && uid != "" && uid != is {
		return nil, apierrors.NewConflict(q.at.GroupResource, q.at.name,
			//nolint:staticcheck // as an API server has it
			fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, is))
	}
	if live == nil {
		return q.updated(before, after)
	}
	if err := q.current(live, after); err != nil {
		return nil, err
	}
	managed, reset := metadataOf(after)["managedFields"]
	tree := q.merge(before, after)
	if reset && q.subresource == "" {
		metadataOf(tree)["managedFields"] = managed
	}
	return q.updated(before, tree)
}

// edited returns what a request makes of what it reads.
func (q *request) edited(seen map[string]any) (map[string]any, error) {
	unprocessable := func(err error) error { return response(http.StatusUnprocessableEntity, err) }
	text, _ := json.Marshal(seen) // it came from JSON
	switch kind := q.patchType(); {
	case q.Method != http.MethodPatch:
		return decode(q.body)
	case kind == types.MergePatchType:
		text, err := jsonpatch.MergePatch(text, q.body)
		if err != nil {
			return nil, err
		}
		return decode(text)
	case kind == types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(q.body)
		if err != nil {
			return nil, err
		}
		if text, err = patch.Apply(text); err != nil {
			return nil, unprocessable(err)
		}
		return decode(text)
	default: // a strategic one
		patch, err := decode(q.body)
		if err != nil {
			return nil, err
		}
		t, _ := builtIn(q.kind)
		tree, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(runtime.DeepCopyJSON(seen), patch, patchMeta(t))
		if err != nil {
			return nil, unprocessable(err)
		}
		return tree, nil
	}
}

// patches reports whether the server has the kind of patch for the kind of the object.
func (q *request) patches() bool {
	return slices.Contains([]types.PatchType{types.ApplyPatchType, types.MergePatchType, types.JSONPatchType}, q.patchType()) ||
		q.patchType() == types.StrategicMergePatchType && !q.kind.Custom && !q.kind.Guessed
}

func (s *Server) delete(q *request, live *stored) (any, error) {
	var options metav1.DeleteOptions
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, &options); err != nil {
			return nil, err
		}
	}
	metadata := metadataOf(live.tree)
	if p := options.Preconditions; p != nil && (p.UID != nil && string(*p.UID) != metadata["uid"] ||
		p.ResourceVersion != nil && *p.ResourceVersion != metadata["resourceVersion"]) {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: q.at.Group, Resource: q.kind.Kind}, q.at.name, fmt.Errorf(
			"the UID or the ResourceVersion in the precondition does not match that in record (%v, %v)", metadata["uid"],
			metadata["resourceVersion"]))
	}
	if q.at.GroupResource == namespaces && slices.Contains(protected, q.at.name) {
		return nil, apierrors.NewForbidden(namespaces, q.at.name, errors.New("this namespace may not be deleted"))
	}
	if q.dryRun = q.dryRun && len(q.body) == 0 || len(options.DryRun) > 0; !q.dryRun {
		if next := s.deleteObject(q.at, live); next != nil {
			return q.read(next), nil
		}
	} else if finalizers, _ := metadata["finalizers"].([]any); len(finalizers) > 0 {
		return q.read(live), nil
	}
	uid, _ := metadata["uid"].(string)
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: q.at.name, Group: q.at.Group, Kind: q.at.Resource, UID: types.UID(uid)},
	}, nil
}

// deleteObject deletes an object, or returns it with the time of its deletion if something keeps it. It requires mu.
func (s *Server) deleteObject(at key, live *stored) *stored {
	finalizers, _ := metadataOf(live.tree)["finalizers"].([]any)
	switch {
	case s.live && (at.GroupResource == namespaces || at.GroupResource == crds && s.contains(at)):
		return s.terminate(at, live)
	case len(finalizers) > 0:
		return s.update(at, live, s.deleting(live))
	}
	s.remove(at, live)
	return nil
}
