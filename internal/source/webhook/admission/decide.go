package admission

import (
	"strconv"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// action is what to do with an object.
type action int

const (
	leave action = iota
	// register creates or updates the object.
	register
	// remove deletes the object, which the operator has created; empty removes the webhooks of an object that stays.
	remove
	empty
)

// decide compares the object in the cluster (nil: absent) with the desired one. What an operator that started later has written is removed
// by that one only: during an update both run, and the later one has the next hooks.
func (k *keeper) decide(live, want *configuration) action {
	if want != nil && len(want.Webhooks) > 0 {
		if live != nil && equality.Semantic.DeepEqual(live, want) {
			return leave
		}
		return register
	}
	switch {
	case live == nil, !k.ours(live), k.writtenLater(live):
		return leave
	case created(live) && (want == nil || len(k.webhooks) == 0):
		return remove
	case len(live.Webhooks) == 0:
		return leave
	}
	return empty
}

// created reports whether an operator has created the object, and not a chart or a user.
func created(live *configuration) bool { return live.Labels[managedByLabel] == managedBy }

// writtenLater reports whether an operator with other hooks that started after this one wrote the object.
func (k *keeper) writtenLater(live *configuration) bool {
	n := numberOf(live)
	return (n > k.number || n == k.number && !k.raised) && live.Annotations[versionAnnotation] != k.version
}

// numberOf returns the number of the operator that wrote the object; 0 for none.
func numberOf(live *configuration) (number int) {
	if live != nil {
		number, _ = strconv.Atoi(live.Annotations[startedAnnotation])
	}
	return number
}

// changed reports whether webhooks that were in the object are missing in it, or different. Another replica may have added others.
func changed(before []admissionregistration.MutatingWebhook, live *configuration) bool {
	now := map[string]admissionregistration.MutatingWebhook{}
	if live != nil {
		for _, w := range live.Webhooks {
			now[w.Name] = w
		}
	}
	for _, w := range before {
		if !equality.Semantic.DeepEqual(w, now[w.Name]) {
			return true
		}
	}
	return false
}
