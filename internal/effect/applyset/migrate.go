package applyset

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// isOperators reports whether an entry of the managedFields is of the operations that are no Sync.
func isOperators(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == operatorManager && e.Subresource == ""
}

// migrate makes the fields of other operations those of the set, in one patch before the first apply: the apply then removes those that the
// set does not want.
func (s *session) migrate(ctx context.Context, o *object, current *live) error {
	entries, err := s.migrated(current.ManagedFields)
	if err != nil {
		return err
	}
	steps := append(testsOf(current), step{"replace", "/metadata/managedFields", entries})
	_, err = s.patchJSON(ctx, o.resource, append(o.resource.Path(o.namespace), o.name), steps)
	if apierrors.IsInvalid(err) { // a test has failed
		return apierrors.NewConflict(o.resource.GroupResource(), o.name, err)
	}
	return err
}

// migrated joins the entries of the operator's other operations with that of the set.
func (n *names) migrated(entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	var kept []metav1.ManagedFieldsEntry
	joined := metav1.ManagedFieldsEntry{Manager: n.manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1"}
	fields := fieldpath.NewSet()
	for _, e := range entries {
		if !isOperators(e) && (e.Manager != n.manager || e.Subresource != "") {
			kept = append(kept, e)
			continue
		}
		if e.FieldsV1 == nil {
			continue
		}
		var more fieldpath.Set
		if err := more.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("cannot read its managedFields: %w", err)
		}
		fields = fields.Union(&more)
		joined.APIVersion, joined.Time = e.APIVersion, e.Time
	}
	text, err := fields.ToJSON()
	if err != nil {
		return nil, err
	}
	joined.FieldsV1 = &metav1.FieldsV1{}
	joined.FieldsV1.SetRawBytes(text)
	return slices.Insert(kept, 0, joined), nil
}
