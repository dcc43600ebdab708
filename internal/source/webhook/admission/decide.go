package admission

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
)

// action is what to do about an object.
type action int

const (
	leave action = iota
	create
	update
	remove
	// yield leaves the object to an operator that started later, for a while.
	yield
)

// decide compares the object in the cluster (nil: there is none) with the one that should be there. patient tells
// whether there is still time to leave it to others.
//
// While an installation is renewed, the old operator and the new one are both there, and want different webhooks. Then
// the one that started last decides, or else they would overwrite each other. But it may have gone: after some time the
// other one stops being patient.
func (k *keeper) decide(live, want *configuration, patient bool) action {
	wanted := len(k.webhooks) > 0
	switch {
	case live == nil && wanted:
		return create
	case live == nil, !wanted && !k.ours(live), wanted && equality.Semantic.DeepEqual(live, want):
		return leave
	case k.writtenLater(live) && patient:
		return yield
	case !wanted:
		return remove
	}
	return update
}

// writtenLater tells whether an operator wrote the object that started after this one.
func (k *keeper) writtenLater(live *configuration) bool {
	started, err := time.Parse(time.RFC3339Nano, live.Annotations[startedAnnotation])
	return err == nil && started.After(k.started)
}
