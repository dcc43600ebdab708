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

	jsonpatch "gopkg.in/evanphx/json-patch.v4" // that of an API server
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
func (s *Server) check(q *request, before, tree map[string]any) *apierrors.StatusError {
	if q.subresource == "scale" {
		return nil
	}
	found, known := mistakes(q.kind, before, tree)
	directive := q.URL.Query().Get("fieldValidation")
	switch {
	case len(found) == 0 || s.noted(q.kind, key{namespace: q.at.namespace, name: cmp.Or(q.at.name, "(new)")}, found):
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
	}
	text := "strict decoding error: " + strings.Join(found, ", ")
	if q.Method == http.MethodPatch && !q.isApply() {
		return invalid(schema.GroupKind{}, "", fieldInvalid("patch", "", text))
	}
	return q.bad(fmt.Errorf("%s in version %q cannot be handled as a %s: %s", q.kind.Kind, q.kind.GroupVersion(), q.kind.Kind, text))
}

func (q *request) patchType() types.PatchType {
	media, _, _ := strings.Cut(q.Header.Get("Content-Type"), ";")
	return types.PatchType(media)
}

func (q *request) isApply() bool {
	return q.Method == http.MethodPatch && q.patchType() == types.ApplyPatchType
}

func (s *Server) create(q *request) (any, *apierrors.StatusError) {
	o, failure := s.edit(q, nil)
	if failure != nil {
		return nil, failure
	}
	return s.made(q, o)
}

// prepared checks an object that a client has written, and makes it canonical.
func (s *Server) prepared(q *request, before, tree map[string]any) *apierrors.StatusError {
	if failure := q.matches(tree); failure != nil {
		return failure
	}
	if failure := s.check(q, before, tree); failure != nil {
		return failure
	}
	return q.canonical(tree)
}

// made stores a new object, unless the request is a dry run.
func (s *Server) made(q *request, o *stored) (any, *apierrors.StatusError) {
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
	if failure := s.accepts(q); failure != nil {
		return nil, failure
	}
	if failure := q.validate(nil, o.tree); failure != nil {
		return nil, failure
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
func (s *Server) one(q *request) (any, *apierrors.StatusError) {
	live := s.objects[q.at]
	change := s.edit
	if q.isApply() {
		change = s.apply
	}
	creates := q.subresource == "" && (q.isApply() || q.Method == http.MethodPut && q.createsOnUpdate())
	switch {
	case q.subresource != "" && !q.serves() && q.kind.Custom:
		return nil, apierrors.NewNotFound(q.at.GroupResource, q.at.name)
	case q.Method == http.MethodPatch && !q.patches():
		return nil, unsupported("the body of the request was in an unknown format")
	case q.subresource != "" && !q.serves():
		return nil, missing(q.Request, "", "")
	case q.Method == http.MethodGet && live != nil:
		return q.view(q.read(live)), nil
	case q.Method == http.MethodDelete && live != nil:
		return s.delete(q, live)
	case live == nil && !creates:
		return nil, apierrors.NewNotFound(q.at.GroupResource, q.at.name)
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

func (q *request) serves() bool {
	switch q.subresource {
	case "status":
		return q.kind.Status || q.kind.Guessed
	case "scale":
		return q.kind.Scale || q.kind.Guessed
	}
	return false
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
func (s *Server) edit(q *request, live *stored) (*stored, *apierrors.StatusError) {
	if live == nil {
		tree, failure := q.object()
		if failure == nil {
			failure = s.prepared(q, q.empty(), tree)
		}
		if failure != nil {
			return nil, failure
		}
		if uid, _ := metadataOf(tree)["uid"].(string); q.Method == http.MethodPut && uid != "" {
			return nil, q.uidMismatch(uid, "")
		}
		return q.updated(q.empty(), tree)
	}
	before := q.read(live)
	seen := q.view(before)
	after, failure := q.edited(seen)
	if failure != nil {
		return nil, failure
	}
	if q.subresource == "scale" {
		after = q.merge(before, after)
	} else if failure := s.prepared(q, live.tree, after); failure != nil {
		return nil, failure
	}
	if uid, _ := metadataOf(after)["uid"].(string); q.Method == http.MethodPut && uid != "" && uid != metadataOf(seen)["uid"] {
		return nil, q.uidMismatch(uid, metadataOf(seen)["uid"])
	}
	if failure := q.current(live, after); failure != nil {
		return nil, failure
	}
	managed, reset := metadataOf(after)["managedFields"]
	tree := q.merge(before, after)
	if reset && q.subresource == "" {
		metadataOf(tree)["managedFields"] = managed
	}
	return q.updated(before, tree)
}

func (q *request) uidMismatch(given string, is any) *apierrors.StatusError {
	return apierrors.NewConflict(q.at.GroupResource, q.at.name,
		//nolint:staticcheck // as an API server has it
		fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %v", given, is))
}

// edited returns what a request makes of what it reads.
func (q *request) edited(seen map[string]any) (map[string]any, *apierrors.StatusError) {
	before, _ := json.Marshal(seen) // it came from JSON
	unprocessable := func(err error) *apierrors.StatusError {
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	switch kind := q.patchType(); {
	case q.Method == http.MethodPut:
		return q.object()
	case q.Method != http.MethodPatch:
		return nil, apierrors.NewMethodNotSupported(q.at.GroupResource, strings.ToLower(q.Method))
	case kind == types.MergePatchType:
		text, err := jsonpatch.MergePatch(before, q.body)
		if err != nil {
			return nil, q.bad(err)
		}
		return q.decoded(text)
	case kind == types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(q.body)
		if err != nil {
			return nil, q.bad(err)
		}
		text, err := patch.Apply(before)
		if err != nil {
			return nil, unprocessable(err)
		}
		return q.decoded(text)
	case kind == types.StrategicMergePatchType:
		patch, failure := q.decoded(q.body)
		if failure != nil {
			return nil, failure
		}
		t, _ := builtIn(q.kind)
		tree, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(runtime.DeepCopyJSON(seen), patch, patchMeta(t))
		if err != nil {
			return nil, unprocessable(err)
		}
		return tree, nil
	}
	return nil, nil // patches excludes it
}

// patches reports whether the server has the kind of patch for the kind of the object.
func (q *request) patches() bool {
	return slices.Contains([]types.PatchType{types.ApplyPatchType, types.MergePatchType, types.JSONPatchType}, q.patchType()) ||
		q.patchType() == types.StrategicMergePatchType && !q.kind.Custom && !q.kind.Guessed
}

// unsupported is the answer to a body of another type.
func unsupported(message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType,
		Reason: metav1.StatusReasonUnsupportedMediaType, Message: message}}
}

// object is the object in the body of the request.
func (q *request) object() (map[string]any, *apierrors.StatusError) { return q.decoded(q.body) }

func (q *request) decoded(text []byte) (map[string]any, *apierrors.StatusError) {
	tree, err := decode(text)
	if err != nil {
		return nil, q.bad(err)
	}
	return tree, nil
}

func (s *Server) delete(q *request, live *stored) (any, *apierrors.StatusError) {
	var options metav1.DeleteOptions
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, &options); err != nil {
			return nil, q.bad(err)
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
