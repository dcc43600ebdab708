package patch

import (
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// A hook has seen the generation in its context, and the current one if all changes since are its own.
func TestObservedGeneration(t *testing.T) {
	live := conditioned{}
	live.Metadata.UID, live.Metadata.Generation, live.Metadata.ResourceVersion = "u", 4, "9"
	for _, row := range []struct {
		name, uid string
		inContext int64
		own       effect.Known
		want      int64
	}{
		{"the object is in no context", "", 0, effect.Known{}, 4},
		{"in a context", "u", 2, effect.Known{}, 2},
		{"the context has another object of the name", "old", 58, effect.Known{}, 4},
		{"own changes since", "u", 2, effect.Known{Version: "9", Generation: 2}, 4},
		{"own changes since an earlier run", "u", 3, effect.Known{Version: "9", Generation: 2}, 4},
		{"changes of others before", "u", 1, effect.Known{Version: "9", Generation: 2}, 1},
		{"changes of others since", "u", 2, effect.Known{Version: "8", Generation: 2}, 2},
		{"the binding lacks the object", "u", 2, effect.Known{Version: "9"}, 2},
	} {
		if got := live.observed(row.uid, row.inContext, row.own); got != row.want {
			t.Errorf("%s: %d, want %d", row.name, got, row.want)
		}
	}
}
