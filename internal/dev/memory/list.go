package memory

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
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

// objectsAt returns the objects as they were at a version. It requires mu.
func (s *Server) objectsAt(version int) (map[key]*stored, error) {
	if version == s.version {
		return s.objects, nil
	}
	if version < s.forgotten {
		return nil, s.expired(version)
	}
	objects := maps.Clone(s.objects)
	for _, e := range slices.Backward(s.log) {
		if e.version <= version {
			break
		}
		if delete(objects, e.at); e.before != nil {
			objects[e.at] = e.before
		}
	}
	return objects, nil
}

// page is where a list continues.
type page struct {
	Version int    `json:"rv"`
	Start   string `json:"start"`
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

// list returns the objects that a request selects, or a page of them.
func (s *Server) list(q *request) (any, error) {
	sel, err := s.selection(q)
	if err != nil {
		return nil, err
	}
	query := q.URL.Query()
	at := page{Version: s.version}
	if query.Get("resourceVersionMatch") == "Exact" {
		at.Version = sel.version
	}
	if token := query.Get("continue"); token != "" {
		text, err := base64.RawURLEncoding.DecodeString(token)
		if err == nil {
			err = json.Unmarshal(text, &at)
		}
		if err != nil || at.Version > s.version {
			return nil, errors.New("continue key is not valid")
		}
	}
	objects, err := s.objectsAt(at.Version)
	if err != nil {
		return nil, err
	}
	all := selection{of: sel.of, labels: labels.Everything(), fields: fields.Everything()}
	if name, one := sel.fields.RequiresExactMatch("metadata.name"); one {
		all.fields = fields.OneTermEqualSelector("metadata.name", name)
	}
	var rest []key
	for one, o := range objects {
		if all.matches(one, o) && one.position() >= at.Start {
			rest = append(rest, one)
		}
	}
	slices.SortFunc(rest, key.compare)
	metadata := map[string]any{"resourceVersion": fmt.Sprint(at.Version)}
	limit, _ := strconv.Atoi(query.Get("limit"))
	items := []any{}
	for i, one := range rest {
		if limit > 0 && len(items) == limit { // whatever the rest is: a page may be empty
			text, _ := json.Marshal(page{at.Version, one.position()}) // a number and text
			metadata["continue"] = base64.RawURLEncoding.EncodeToString(text)
			if sel.labels.Empty() && sel.fields.Empty() {
				metadata["remainingItemCount"] = len(rest) - i
			}
			break
		}
		if sel.matches(one, objects[one]) {
			items = append(items, q.read(objects[one]))
		}
	}
	return map[string]any{"apiVersion": q.kind.GroupVersion().String(), "kind": q.kind.Kind + "List", "metadata": metadata,
		"items": items}, nil
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
