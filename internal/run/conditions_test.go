package run

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// The table of conditions: which objects get which one.
func TestOutcomes(t *testing.T) {
	limit := 2
	plain, limited, dropping := hookOf("--"), hookOf("--"), hookOf("--")
	for _, h := range []*hook.Hook{plain, limited, dropping} {
		h.Kubernetes[0].Condition, h.Kubernetes[0].Kind = "Ready", "Pod"
	}
	limited.Kubernetes[0].Retry = &hook.Retry{Limit: &limit}
	dropping.Kubernetes[0].AllowFailure = true
	of := func(h *hook.Hook, watch event.Watch, name string) event.Event {
		return event.Event{Type: event.Change, Hook: h, Watch: watch, Object: event.Object{Namespace: "shop", Name: name}}
	}
	failure := &process.ExitError{Status: "exit status 3"}
	for name, c := range map[string]struct {
		events   []event.Event
		attempts int
		result   effect.Result
		err      error
		want     string
	}{
		"succeeded": {[]event.Event{of(plain, event.Added, "web")}, 1, effect.Result{}, nil, "shop/web True/Succeeded "},
		"with a message": {[]event.Event{of(plain, event.Requeued, "web")}, 1, effect.Result{Message: "3 of 5"}, nil,
			"shop/web True/Succeeded 3 of 5"},
		"failed": {[]event.Event{of(plain, event.Modified, "web")}, 4, effect.Result{}, failure,
			"shop/web Unknown/Retrying attempt 4: exit status 3"},
		"failed with a message": {[]event.Event{of(limited, event.Added, "web")}, 1, effect.Result{Message: "no disk"}, failure,
			"shop/web Unknown/Retrying attempt 1 of 2: exit status 3: no disk"},
		"exhausted": {[]event.Event{of(limited, event.Added, "web")}, 2, effect.Result{}, failure,
			"shop/web False/Failed attempt 2 of 2: exit status 3"},
		"given up": {[]event.Event{of(plain, event.Added, "web")}, 1, effect.Result{GiveUp: "no such shop"}, failure,
			"shop/web False/Failed attempt 1: exit status 3: no such shop"},
		"allowed to fail": {[]event.Event{of(dropping, event.Added, "web")}, 1, effect.Result{}, failure,
			"shop/web False/Failed attempt 1 of 1: exit status 3"},
		"an operation failed": {[]event.Event{of(plain, event.Added, "web")}, 1, effect.Result{}, errors.New("no such object"),
			"shop/web Unknown/Retrying attempt 1: exit status 0, but its output was not applied"},
		"gone": {[]event.Event{of(plain, event.Added, "web"), of(plain, event.Deleted, "web")}, 1, effect.Result{}, nil, ""},
		"gone and created again": {[]event.Event{of(plain, event.Deleted, "web"), of(plain, event.Added, "web")}, 1, effect.Result{}, nil,
			"shop/web True/Succeeded "},
		"clean-up done": {[]event.Event{of(plain, event.Deleting, "web")}, 1, effect.Result{}, nil, ""},
		"clean-up has another step": {[]event.Event{of(plain, event.Deleting, "web")}, 1,
			effect.Result{KeepFinalizer: true, Message: "in the bin"}, nil, "shop/web False/Deleting in the bin"},
		"clean-up failed": {[]event.Event{of(plain, event.Deleting, "web")}, 4, effect.Result{}, failure,
			"shop/web Unknown/Retrying attempt 4: exit status 3"},
		"another binding": {[]event.Event{{Type: event.Change, Hook: plain, Index: 1, Watch: event.Added, Object: event.Object{Name: "x"}}}, 1,
			effect.Result{}, nil, ""},
		"a Synchronization": {[]event.Event{{Type: event.Synchronization, Hook: plain}}, 1, effect.Result{}, nil,
			"shop/a True/Succeeded shop/b True/Succeeded "},
		"a failed one": {[]event.Event{{Type: event.Synchronization, Hook: plain}}, 1, effect.Result{}, failure, ""},
	} {
		r := New(Options{})
		task := r.Task(c.events[0])
		for _, ev := range c.events[1:] {
			task.Absorb(r.Task(ev))
		}
		task.ensureExtra().last.attempts = c.attempts
		a := &Attempt{Task: task, Report: Report{Usage: process.Usage{Wall: 1}, Result: c.result},
			Lists: []event.Snapshot{many{{Namespace: "shop", Name: "a"}, {Namespace: "shop", Name: "b"}}}}
		var got strings.Builder
		patches, bindings := new(Conditions).outcomes(a, c.err)
		for i, o := range patches {
			if !task.Reports(0, o.Namespace, o.Name) {
				t.Errorf("%s: a change of %s/%s is not reported", name, o.Namespace, o.Name)
			}
			fmt.Fprintf(&got, "%s/%s %s/%s %s", o.Namespace, o.Name, o.Condition.Status, o.Condition.Reason, o.Condition.Message)
			if isLast := strings.HasPrefix(name, "clean-up"); o.Kind != "Pod" || o.Condition.Type != "Ready" ||
				(bindings[i] == noLaterEvents) != isLast || !isLast && bindings[i] != 0 {
				t.Errorf("%s: %+v of binding %d", name, o, bindings[i])
			}
		}
		if got.String() != c.want {
			t.Errorf("%s: got %q, want %q", name, got.String(), c.want)
		}
		if last := c.events[len(c.events)-1]; task.Reports(0, "shop", "other") != (last.Type == event.Synchronization) ||
			last.Watch == event.Deleted && task.Reports(0, "shop", "web") {
			t.Errorf("%s: changes of other objects are taken for reported", name)
		}
	}
}

// A task with the events of two bindings reports for each its own object, whatever its name.
func TestReports(t *testing.T) {
	h := &hook.Hook{Kubernetes: []hook.Kubernetes{{Kind: "Pod", Condition: "Ready"}, {Kind: "Service", Condition: "Ready"}}}
	r := New(Options{})
	of := func(index int, watch event.Watch, name string) *Task {
		return r.Task(event.Event{Type: event.Change, Watch: watch, Hook: h, Index: index, Object: event.Object{Namespace: "shop", Name: name}})
	}
	task := of(0, event.Deleted, "web")
	for _, next := range []*Task{of(1, event.Modified, "web"), of(1, event.Modified, "api")} {
		if !task.Absorb(next) {
			t.Fatal("one task does not have both events")
		}
	}
	for _, row := range []struct {
		index int
		name  string
		want  bool
	}{{0, "web", false}, {1, "web", false}, {1, "api", true}, {0, "api", false}} {
		if got := task.Reports(row.index, "shop", row.name); got != row.want {
			t.Errorf("binding %d, %s: reported %t", row.index, row.name, got)
		}
	}
}
