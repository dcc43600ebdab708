package pending

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
)

// TestReplaceAgainstModel adds random events to a lane of tasks. Above the bound, only a Modified event directly behind a Modified one of
// its binding and object, among the events of these, takes its place.
func TestReplaceAgainstModel(t *testing.T) {
	h := hookOf("--")
	for i := range h.Kubernetes {
		h.Kubernetes[i].Lanes = hook.Lanes{Key: ".spec.customer", Concurrency: 2}
	}
	other := hookOf("-")
	rapid.Check(t, func(t *rapid.T) {
		full, replaced := false, 0
		waiting := New(Options{Full: func() bool { return full }, Replaced: func(*event.Event) { replaced++ }})
		r := run.New(run.Options{Deferred: waiting})
		var lane []*run.Task
		var want, got []string
		dropped := 0
		type about struct {
			hook        *hook.Hook
			index       int
			name, watch string
		}
		var model []about
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			full = rapid.Bool().Draw(t, "full")
			ev := event.Event{Type: event.Change, Hook: rapid.SampledFrom([]*hook.Hook{h, h, other}).Draw(t, "hook"), Key: "k"}
			ev.Watch = rapid.SampledFrom([]event.Watch{event.Modified, event.Modified, event.Modified, event.Added, event.Deleted, event.Deleting}).
				Draw(t, "watch")
			if ev.Hook == h {
				ev.Index = rapid.IntRange(0, 1).Draw(t, "binding")
			}
			ev.Object = event.Object{Namespace: "a", Name: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name")}
			waiting.Enter(&ev)
			task := r.Task(ev)
			for i := len(lane) - 1; i >= 0; i-- { // as the queue does
				empty, done := task.Replace(lane[i])
				if empty {
					lane = slices.Delete(lane, i, i+1)
				}
				if done {
					break
				}
			}
			if n := len(lane); n == 0 || rapid.Bool().Draw(t, "apart") || !lane[n-1].Absorb(task) {
				lane = append(lane, task)
			}
			now := about{ev.Hook, ev.Index, ev.Object.Name, ev.Watch.String()}
			if full && ev.Watch == event.Modified {
				for i := len(model) - 1; i >= 0; i-- {
					if m := model[i]; m.hook == now.hook && m.index == now.index && m.name == now.name {
						if m.watch == "Modified" {
							model = slices.Delete(model, i, i+1)
							dropped++
						}
						break
					}
				}
			}
			model = append(model, now)
		}
		for _, m := range model {
			want = append(want, fmt.Sprint(m.hook == h, m.index, m.name, m.watch))
		}
		for _, task := range lane {
			for ev := range task.Events() {
				got = append(got, fmt.Sprint(ev.Hook == h, ev.Index, ev.Object.Name, ev.Watch.String()))
			}
		}
		if !slices.Equal(got, want) || replaced != dropped {
			t.Fatalf("%d replaced: %q, want %d: %q", replaced, got, dropped, want)
		}
		for _, task := range lane {
			task.Forget()
		}
		for i := range 4 { // an object without events goes to any lane
			ev := event.Event{Type: event.Change, Hook: h, Index: i / 2, Key: "fresh",
				Object: event.Object{Namespace: "a", Name: []string{"x", "y"}[i%2]}}
			if waiting.Enter(&ev); ev.Key != "fresh" {
				t.Fatalf("object %d stays in its lane without an event", i)
			}
		}
	})
}
