package app

import (
	"slices"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/pending"
)

// A deletion that --max-parked has displaced is a trouble of its binding until there is room.
func TestDisplacedDeletions(t *testing.T) {
	i := &insight{op: &operator{pending: pending.New(pending.Options{})}}
	h := &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: "example.com/other"}, {Finalizer: "example.com/share"}}}
	for _, name := range []string{"a", "b"} {
		i.op.pending.AwaitRoom(event.Event{
			Type: event.Change, Hook: h, Index: 1, Watch: event.Deleting, Object: event.Object{Namespace: "x", Name: name, UID: name},
		}, time.Unix(int64(name[0]), 0))
	}
	want := []string{"2 objects keep the finalizer example.com/share, because more than --max-parked contexts are parked: " +
		"their deletion is delivered again when there is room: x/a"}
	if got := i.displaced(h, 1); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := i.displaced(h, 0); got != nil {
		t.Errorf("the other binding: %q", got)
	}
	i.op.pending.Take(time.Now())
	if got := i.displaced(h, 1); got != nil {
		t.Errorf("with room: %q", got)
	}
}
