package apply

import (
	"slices"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// The objects that a run changes have the names that its turn waits for, those of sets among them.
func TestObjectsOfATurn(t *testing.T) {
	set := effect.Patch{Set: &effect.ObjectSet{Name: "s", Objects: []effect.Member{{Kind: "Node", Name: "a"}}}}
	patches := []effect.Patch{{Kind: "Node", Name: "a"}, {Kind: "Pod", Namespace: "x", Name: "a"}, set}
	if got, want := slices.Collect(objects(patches, "own")), []string{"default/a", "x/a", "own/a", "set s of "}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
}
