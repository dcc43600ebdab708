package dev

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
)

// TestFromRuns prints a Role in each namespace for as many operations as an operator keeps, and a comment about further ones.
func TestFromRuns(t *testing.T) {
	r := RBACOptions{Options: rbac.Options{Name: "hooks", ServiceAccount: "operator"}, FromRuns: &Sent{Dropped: 7}}
	for i := range 10_000 {
		r.FromRuns.Uses = append(r.FromRuns.Uses, rbac.Use{Namespace: fmt.Sprintf("shop-%d", i%100), Resource: fmt.Sprintf("things-%d", i/100),
			Verbs: []string{"create"}, Why: "a.sh, operation Create"})
	}
	roles, err := rbac.Plan(nil, nil, r.plan(nil))
	if err != nil {
		t.Fatal(err)
	}
	text := rbac.YAML(r.about(nil, nil), roles, r.plan(nil))
	for part, want := range map[string]int{
		"kind: Role\nmetadata": 100, "kind: ClusterRole\nmetadata": 0, "# a.sh, operation Create\n": 10_000,
		"# INCOMPLETE: the operator keeps 10000 kinds of operations, 7 operations of others were sent.\n": 1,
	} {
		if n := strings.Count(text, part); n != want {
			t.Errorf("%q is there %d times, not %d", part, n, want)
		}
	}
}
