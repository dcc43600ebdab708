package applyset

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ref identifies an object.
type ref struct {
	schema.GroupKind
	namespace, name string
}

func (r ref) String() string {
	parts := []string{r.GroupKind.String()}
	if r.namespace != "" {
		parts = append(parts, r.namespace)
	}
	return strings.Join(append(parts, r.name), "/")
}

// live is the metadata of an object.
type live = metav1.PartialObjectMetadata

// entryOf returns the index of the entry of the managedFields in which a manager has what it applied, or -1.
func entryOf(o *live, manager string) int {
	return slices.IndexFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
}

// labelField is the label of members in managed fields.
var labelField = fieldpath.MakePathOrDie("metadata", "labels", partOfLabel)

// isMember reports whether the manager of the set has written the label of the object: by an apply, or by the patch of a move. The label
// alone is no evidence: controllers copy labels.
func (n *names) isMember(o *live) bool {
	return o.Labels[partOfLabel] == n.id && slices.ContainsFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == n.manager && e.Subresource == "" && setOf(e.FieldsV1).Has(labelField)
	})
}

// fieldsHash identifies the fields that the set's manager owns: a change by another manager takes fields away.
func (n *names) fieldsHash(o *live) string {
	entry := entryOf(o, n.manager)
	if entry < 0 {
		return ""
	}
	e := o.ManagedFields[entry]
	text := e.APIVersion + " " + o.Labels[partOfLabel] + " "
	if e.FieldsV1 != nil {
		text += e.FieldsV1.GetRawString()
	}
	return digest(text)
}

// created reports whether the set's apply has created the member, rather than changed an object that another client had created before. It
// is asked about members of a short time only: an object that was adopted is not created by us either. Times have no fractions of a second,
// so a controller's first change may have the creation's time; unlike a creator, it owns neither fields of the set nor what they are in:
// both objects were complete, so they have the fields that the kind requires.
func (n *names) created(o *live) bool {
	entry := entryOf(o, n.manager)
	if entry < 0 {
		return false
	}
	ours := setOf(o.ManagedFields[entry].FieldsV1)
	first := notAfter(o.ManagedFields[entry].Time, o.CreationTimestamp)
	for _, e := range o.ManagedFields {
		if e.Manager == n.manager || e.Subresource != "" || first && !notAfter(e.Time, o.CreationTimestamp) {
			continue
		}
		if !first || contains(setOf(e.FieldsV1), ours) {
			return false
		}
	}
	return true
}

// meets reports whether an apply that should have created an object has met one by another process of this installation, or an earlier one
// of this process whose response was lost, rather than another client's. An apply that creates an object, unlike an update, need not own a
// field of another one: so no other client may have applied more than metadata, which controllers add.
func (n *names) meets(answer *live) bool {
	return n.created(answer) && !slices.ContainsFunc(answer.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Operation == metav1.ManagedFieldsOperationApply && e.Manager != n.manager && e.Subresource == "" && !isMetadata(e.FieldsV1)
	})
}

func isMetadata(owned *metav1.FieldsV1) bool {
	var fields map[string]json.RawMessage
	if owned == nil || json.Unmarshal(owned.GetRawBytes(), &fields) != nil {
		return false
	}
	delete(fields, "f:metadata")
	return len(fields) == 0
}

// contains reports whether a set of fields has a path of another one, or a field that such a path is in.
func contains(some, paths *fieldpath.Set) (found bool) {
	paths.Iterate(func(path fieldpath.Path) {
		for n := 1; n <= len(path) && !found; n++ {
			found = some.Has(path[:n])
		}
	})
	return found
}

// notAfter compares times of the API server, which have no fractions of a second.
func notAfter(t *metav1.Time, limit metav1.Time) bool { return t == nil || !t.After(limit.Time) }

// foreign returns why an object can never be adopted, or "".
func (n *names) foreign(o *live, owner types.UID) string {
	if set := o.Labels[partOfLabel]; set != "" && set != n.id {
		for _, e := range o.ManagedFields {
			if e.Subresource == "" && setOf(e.FieldsV1).Has(labelField) {
				set += " of " + e.Manager
			}
		}
		return "it belongs to another set, " + set + " (after a rename of the hook or set: shell-operator sets adopt)"
	}
	for _, r := range o.OwnerReferences {
		if r.Controller != nil && *r.Controller && r.UID != owner {
			return "it is controlled by " + r.Kind + "/" + r.Name
		}
	}
	return ""
}
