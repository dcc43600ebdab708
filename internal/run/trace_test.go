package run

import (
	"context"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Without tracers, following an event costs nothing.
func TestNoTracers(t *testing.T) {
	h := &hook.Hook{Name: "a.sh", Schedules: []hook.Schedule{{}}}
	r := New(Options{})
	ev := event.Event{Type: event.Tick, Hook: h}
	task := r.Task(ev)
	ctx := context.Background()
	allocations := testing.AllocsPerRun(100, func() {
		r.startEventTrace(task, &ev)
		_, end := r.startRunSpan(ctx, task)
		end(nil)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
