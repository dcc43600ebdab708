package kube

import (
	"strings"
	"testing"
)

// Whose finalizer an object has, by the field managers that have added it. "-" is an object without managedFields.
func TestAddedBy(t *testing.T) {
	for _, test := range []struct {
		adders, namespace, namespaces string
		ours                          bool
	}{
		{"shell-operator/ours", "a", "a", true},
		{"shell-operator/ours", "b", "a", true},
		{"kubectl shell-operator/ours", "a", "", true},
		{"shell-operator/theirs shell-operator/ours", "a", "", true},
		{"shell-operator/ours ancient-changes", "b", "a", true},

		{"shell-operator/theirs", "a", "", false},
		{"shell-operator/ours.too", "a", "", false},
		{"shell-operator/theirs ancient-changes", "a", "", false},
		{"before-first-apply shell-operator/theirs", "a", "", false},

		{"-", "a", "", true},
		{"-", "a", "a b", true},
		{"-", "", "a", true},
		{"-", "c", "a b", false},
		{"ancient-changes", "a", "", true},
		{"ancient-changes", "c", "a b", false},
		{"kubectl ancient-changes", "a", "a", true},
		{"before-first-apply", "a", "a", true},
		{"before-first-apply kubectl", "", "a", true},

		{"kubectl", "a", "", false},
		{"shell-operator", "a", "", false}, // an operation of a hook
		{"", "a", "a", false},              // an apply declares it
	} {
		o := Finalized{Namespace: test.namespace}
		if test.adders != "-" {
			o.Adders = strings.Fields(test.adders)
		}
		if got := o.AddedBy("shell-operator/ours", strings.Fields(test.namespaces)); got != test.ours {
			t.Errorf("added by %q in namespace %q, for namespaces %q: ours is %t", test.adders, test.namespace, test.namespaces, got)
		}
	}
}
