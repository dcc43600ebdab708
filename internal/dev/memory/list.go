package memory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selection is what a request selects of the objects of its kind.
type selection struct {
	of     key // without a name
	labels labels.Selector
	fields fields.Selector
	// version is 0 for any.
	version int
}

// selection reads what a request selects.
func (s *Server) selection(q *request) (sel selection, err error) {
	sel.of = q.at
	if sel.labels, err = labels.Parse(q.URL.Query().Get("labelSelector")); err != nil {
		return sel, err
	}
	if sel.fields, err = fields.ParseSelector(q.URL.Query().Get("fieldSelector")); err != nil {
		return sel, err
	}
	for _, r := range sel.fields.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" && !slices.Contains(q.kind.Selectable, r.Field) {
			return sel, fmt.Errorf("field label not supported: %s", r.Field)
		}
	}
	sel.version, err = q.version(s.version)
	return sel, err
}

// matches reports whether there is an object, and it is selected.
func (sel selection) matches(at key, o *stored) bool {
	if o == nil || at.GroupResource != sel.of.GroupResource || sel.of.namespace != "" && at.namespace != sel.of.namespace {
		return false
	}
	u := unstructured.Unstructured{Object: o.tree}
	if !sel.labels.Empty() && !sel.labels.Matches(labels.Set(u.GetLabels())) {
		return false
	}
	of := fields.Set{}
	for _, r := range sel.fields.Requirements() {
		path := strings.Split(r.Field, ".")
		if r.Field == "name" { // of a Namespace
			path = []string{"metadata", "name"}
		}
		if value, found, _ := unstructured.NestedFieldNoCopy(o.tree, path...); found {
			of[r.Field] = fmt.Sprint(value)
		}
	}
	return sel.fields.Matches(of)
}

// expired is the answer to a request for a version that the log has no more.
func (s *Server) expired(version int) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, s.version))
}

// position is the place of an object in a list of all namespaces.
func (at key) position() string { return at.namespace + "/" + at.name }

func (at key) compare(other key) int { return cmp.Compare(at.position(), other.position()) }

// version reads the version of a request; 0 means any.
func (q *request) version(current int) (int, error) {
	text := cmp.Or(q.URL.Query().Get("resourceVersion"), "0")
	version, err := strconv.Atoi(text)
	switch {
	case err != nil || version < 0:
		return 0, invalid(q.groupKind(), "", fieldInvalid("resourceVersion", text, "strconv.ParseUint: parsing: invalid syntax"))
	case version > current && q.URL.Query().Get("watch") == "":
		err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, current), 1)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge,
			Message: "Too large resource version"}}
		return 0, err
	}
	return version, nil
}

// list returns the objects that a request selects: all, whatever its limit is.
func (s *Server) list(q *request) (any, error) {
	sel, err := s.selection(q)
	if err != nil {
		return nil, err
	}
	items := []any{}
	for _, at := range slices.SortedFunc(maps.Keys(s.objects), key.compare) {
		if o := s.objects[at]; sel.matches(at, o) {
			items = append(items, q.read(o))
		}
	}
	return map[string]any{"apiVersion": q.kind.GroupVersion().String(), "kind": q.kind.Kind + "List",
		"metadata": map[string]any{"resourceVersion": fmt.Sprint(s.version)}, "items": items}, nil
}

// read is an object in the version of the request.
func (q *request) read(o *stored) map[string]any {
	tree := o.shown()
	if version := q.kind.GroupVersion().String(); q.kind.Custom && tree["apiVersion"] != version {
		tree = maps.Clone(tree)
		tree["apiVersion"] = version
	}
	return tree
}

// deleteCollection deletes the objects that a request selects, and returns them.
func (s *Server) deleteCollection(q *request) (any, error) {
	deleted, err := s.list(q)
	if err != nil || q.dryRun {
		return deleted, err
	}
	for _, item := range deleted.(map[string]any)["items"].([]any) { // as list has made it
		at := keyOf(q.kind, item.(map[string]any))
		if live := s.objects[at]; live != nil {
			s.deleteObject(at, live)
		}
	}
	return deleted, nil
}
