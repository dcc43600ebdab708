package admission

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
)

// action is what to do with an object.
type action int

const (
	leave action = iota
	create
	update
	// remove deletes the object, which the operator has created; empty removes the webhooks of an object that stays.
	remove
	empty
	// yield leaves the object to an operator that started later, for a limited time.
	yield
)

// decide compares the object in the cluster (nil: absent) with the desired one. mayYield is false once the object has been
// left to another operator for long enough.
//
// During an update, the old operator and the new one run at the same time and want different webhooks. The one that started
// last wins, so that they do not overwrite each other. As it may have stopped since, the other one yields for a limited time.
func (k *keeper) decide(live, want *configuration, mayYield bool) action {
	wanted := want != nil && len(want.Webhooks) > 0
	switch {
	case live == nil && wanted:
		return create
	case live == nil, !wanted && !k.ours(live), wanted && equality.Semantic.DeepEqual(live, want):
		return leave
	case k.writtenLater(live) && mayYield:
		return yield
	case !wanted && created(live) && (want == nil || len(k.webhooks) == 0):
		return remove
	case !wanted && len(live.Webhooks) == 0:
		return leave
	case !wanted:
		return empty
	}
	return update
}

// created reports whether an operator has created the object, and not a chart or a user.
func created(live *configuration) bool { return live.Labels[managedByLabel] == managedBy }

// writtenLater reports whether an operator that started after this one wrote the object.
func (k *keeper) writtenLater(live *configuration) bool {
	started, err := time.Parse(time.RFC3339Nano, live.Annotations[startedAnnotation])
	return err == nil && started.After(k.started)
}
