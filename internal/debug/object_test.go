package debug

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

func (f *fake) IsKind(h *hook.Hook, index int, kind string) bool {
	return strings.EqualFold(h.Kubernetes[index].Kind, kind)
}

func (f *fake) Sight(h *hook.Hook, index int, namespace, name string) (s Sight) {
	if s, ok := f.sights[fmt.Sprintf("%s %d %s/%s", h.Name, index, namespace, name)]; ok {
		return s
	}
	s.Sees, s.Queue = h.Name == "shop/watch.sh" && index == 0 && namespace == "a", h.Kubernetes[index].Queue
	return s
}

func (f *fake) Parts(kind, namespace, name string) []applyset.Part {
	return f.parts[kind+" "+namespace+"/"+name]
}

// Everything that is known of an object is in the text.
func TestObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
		f := theOperator()
		finalized := hook.Kubernetes{Binding: hook.Binding{Name: "orders"}, Queue: "orders", Kind: "Order", Finalizer: "example.com/order"}
		plain := hook.Kubernetes{Binding: hook.Binding{Name: "audit"}, Queue: "main", Kind: "Order"}
		f.hooks = append(f.hooks, &hook.Hook{Name: "audit.sh", Kubernetes: []hook.Kubernetes{plain}},
			&hook.Hook{Name: "orders.sh", Kubernetes: []hook.Kubernetes{finalized}})
		ready := watch.State{Objects: objects{{}}, Complete: true, Unlocked: true}
		f.bindings["orders.sh"], f.bindings["audit.sh"] = []watch.State{ready}, []watch.State{ready}
		f.progress["orders.sh"], f.progress["audit.sh"] = Progress{StartedUp: true, Paused: true}, Progress{StartedUp: true}
		due := time.Now().Add(30 * time.Second)
		f.sights = map[string]Sight{"orders.sh 0 eu/o-17": {
			ObjectBinding: ObjectBinding{Sees: true, Deleting: true, HasFinalizer: true, Queue: "orders", Key: "Order/eu/o-17",
				InLane: InLane{Lane: &Lane{Phase: queue.Sleeping, RetryIn: history.Duration(4 * time.Second), Failures: 3, Error: "a\nb",
					Tasks: 2}, Events: 2, Before: 1},
				Requeue: &ObjectRequeue{Due: &due}},
			Tasks: []pending.ParkedTask{{ID: "9", Hook: f.hooks[0], Queue: "orders", Key: "Order/eu/o-17", Contexts: 2,
				Attempts: 5, Since: time.Now().Add(-time.Hour), Error: "no\nway"}},
			JSON: []byte(`{"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}, "status": {"conditions": [
				{"type": "Ready", "status": "False", "reason": "Failed", "message": "no\nway", "lastTransitionTime": null}]}}`)}}
		f.parts = map[string][]applyset.Part{"Order eu/o-17": {
			{Hook: "sites.sh", Set: "pages", ID: "pages-1", State: applyset.Drifted, Reason: "changed by kubectl"},
			{Hook: "orders.sh", Set: "children", ID: "children-1", Owner: true, Members: []applyset.MemberState{
				{Kind: "ConfigMap", Namespace: "eu", Name: "a", State: applyset.Applied},
				{Kind: "ConfigMap", Namespace: "eu", Name: "b", State: applyset.Rejected, Reason: "no"}}}}}
		o := operate(f)
		time.Sleep(10 * time.Second)
		for i, why := range []string{"Modified eu/o-17 (orders)", "Modified eu/o-171 (orders)", "Modified eu/o-17 (others)"} {
			o.history.Begin(history.Run{Task: fmt.Sprint(20 + i), Hook: "orders.sh", Attempt: 1, Queue: "orders", Events: 1, Why: []string{why}}).
				End(history.Outcome{Status: history.Failed, Exit: "exit status 1"})
		}
		o.history.Begin(history.Run{Task: "30", Hook: "tidy.sh", Attempt: 1, Events: 1, Why: []string{"tick"}}).
			End(history.Outcome{Status: history.Succeeded, Exit: "exit status 0", Patches: []run.Change{
				{Operation: "MergePatch", Kind: "order/status", Namespace: "eu", Name: "o-17"}}})
		api := o.api()
		got := ask(api, "GET", "/object/order/eu/o-17", nil).Body.String()
		want := `order eu/o-17
condition Ready=False: Failed: no way
orders.sh, binding "orders", paused: sees it
  it is being deleted and has the finalizer example.com/order
  queue "orders", key "Order/eu/o-17": 2 events of it, behind 1 task; the first task has failed 3 times, the next attempt is in 4s: a b
  parked task 9, 5 attempts, 60m ago: no way
  it is delivered again in 20s
audit.sh, binding "audit", watching: does not see it: there is no such object, or the selectors of the binding leave it out
set pages-1 of hook "sites.sh": member, drifted: changed by kubectl
set children-1 of hook "orders.sh": owner of 2 objects
run 30-1 of tidy.sh, 0s ago: exit status 0 (tick)
run 20-1 of orders.sh, 0s ago: exit status 1 (Modified eu/o-17 (orders))
`
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// TestInLaneAgainstModel compares what waits of an object in a FIFO queue and in a lane with the list of all events.
func TestInLaneAgainstModel(t *testing.T) {
	var hooks []*hook.Hook
	for _, name := range []string{"a", "b"} {
		k := hook.Kubernetes{Binding: hook.Binding{Name: "k"}, Queue: "q", Kind: "Order"}
		hooks = append(hooks, &hook.Hook{Name: name, Kubernetes: []hook.Kubernetes{k, k}})
	}
	rapid.Check(t, func(t *rapid.T) {
		runner := run.New(run.Options{})
		set := queue.NewSet(queue.Options{})
		keyed := rapid.Bool().Draw(t, "keyed")
		if keyed {
			set.Keep(map[string]queue.Shape{"q": {Keyed: true, Concurrency: 2}})
		}
		var all []event.Event
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			ev := event.Event{Type: event.Change, Hook: rapid.SampledFrom(hooks).Draw(t, "hook"), Watch: event.Modified,
				Index:  rapid.IntRange(0, 1).Draw(t, "index"),
				Object: event.Object{Namespace: "eu", Name: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name")}}
			if keyed {
				ev.Key = rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "key")
			}
			all = append(all, ev)
			set.Add("q", ev.Key, lifecycle.Task{Task: runner.Task(ev)})
		}
		for _, key := range []string{"", "k1", "k2"} {
			for _, h := range hooks {
				want, any := 0, false
				for _, ev := range all {
					any = any || ev.Key == key
					if ev.Key == key && ev.Hook == h && ev.Index == 1 && ev.Object.Name == "x" {
						want++
					}
				}
				got := QueueSet{Set: set}.InLane("q", key, h, 1, "eu", "x")
				if got.Events != want || (got.Lane != nil) != any || got.AtLeast || got.Lane != nil && got.Before >= got.Lane.Tasks {
					t.Fatalf("hook %s, key %q: %+v, want %d events of %v", h.Name, key, got, want, all)
				}
			}
		}
	})
}

// The cause of the first task is in the runs of the object, and shown once, unless the task is about another one.
func TestFirstTask(t *testing.T) {
	l := &Lane{Phase: queue.Idle, Failures: 1, Error: "boom"}
	for want, w := range map[string]InLane{"": {Lane: l, Events: 1}, ": boom": {Lane: l, Events: 1, Before: 1}} {
		if want = "the first task has failed once, the next attempt waits for its turn" + want; w.FirstTask() != want {
			t.Errorf("%q, not %q", w.FirstTask(), want)
		}
	}
}
