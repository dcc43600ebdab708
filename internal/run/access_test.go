package run

import (
	"errors"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
)

// doors is an Access.
type doors struct {
	waits  string
	denied map[int]bool
}

func (d *doors) Waits(*hook.Hook) string             { return d.waits }
func (d *doors) Denied(_ *hook.Hook, index int) bool { return d.denied[index] }

// Runs of a hook of a tenant wait for its token, and for the bindings that they include; the contexts of a denied binding are dropped.
func TestAccess(t *testing.T) {
	binding := func(name string, includes ...int) hook.Kubernetes {
		return hook.Kubernetes{Binding: hook.Binding{Name: name, Includes: includes}, Queue: "q"}
	}
	h := &hook.Hook{Name: "shop/h", Tenant: &hook.Tenant{Name: "shop"},
		Kubernetes: []hook.Kubernetes{binding("a"), binding("b"), binding("c", 0)}}
	d := &doors{denied: map[int]bool{}}
	r := New(Options{Access: d})
	r.Add([]*hook.Hook{h, {Name: "other"}})
	change := func(index int, name string) *Task {
		return r.Task(event.Event{Type: event.Change, Watch: event.Added, Hook: h, Index: index, Object: event.Object{Name: name}})
	}
	blocked := func(task *Task) string {
		err := task.Run(t.Context())
		if b := queue.Blocked(nil); err != nil && (!errors.As(err, &b) || !task.Blocked()) {
			t.Errorf("error %v, blocked %t", err, task.Blocked())
		}
		if err == nil {
			return ""
		}
		return err.Error()
	}
	d.waits = "no token"
	task := change(0, "x")
	if got := blocked(task); got != `the hooks of tenant "shop" wait: no token` {
		t.Error(got)
	}
	d.waits, d.denied[0] = "", true
	if got := blocked(change(2, "x")); got != `the account of tenant "shop" may not read the objects of binding "a", which the run includes` {
		t.Error(got)
	}
	if got := blocked(task); got != "" || task.events.Len() != 0 {
		t.Errorf("%s, %d contexts", got, task.events.Len())
	}
	// Of a task with several bindings, the others stay.
	d.waits = "no token"
	task = change(0, "x")
	if !task.Absorb(change(1, "y")) || !task.Absorb(change(0, "z")) {
		t.Fatal("not merged")
	}
	if got := blocked(task); !strings.Contains(got, "no token") || task.Binding() != "b" || task.events.Len() != 1 {
		t.Errorf("%s: %s with %d contexts", got, task.Binding(), task.events.Len())
	}
	sync := r.Task(event.Event{Type: event.Synchronization, Hook: h, Index: 0})
	if !sync.DropBinding(0) || len(sync.extra.unlocks) > 0 || change(1, "y").DropBinding(0) {
		t.Error("a Synchronization of the binding is left, or another one is dropped")
	}
	// Requests fail.
	review := event.Review{Event: event.Event{Type: event.HTTP, Hook: &hook.Hook{Name: "shop/h", Tenant: h.Tenant, HTTP: []hook.HTTP{{}}}}}
	_, err := r.Answer(t.Context(), Review{Review: review, Quiet: true})
	if !errors.Is(err, ErrWaits) || !strings.Contains(err.Error(), "no token") {
		t.Errorf("error %v", err)
	}
}

// closing is a Snapshots that ends with its bindings: they are denied when a snapshot is taken.
type closing struct {
	fewObjects
	*doors
}

func (c closing) Snapshot(_ *hook.Hook, index int) event.Snapshot {
	c.denied[index] = true
	return many{}
}

func (c closing) Synchronize(h *hook.Hook, index int) event.Snapshot { return c.Snapshot(h, index) }

// A binding can be denied between the decision that a run may begin and its snapshots. These are empty then, and the hook does not run.
func TestDeniedAtSnapshots(t *testing.T) {
	h := &hook.Hook{Name: "shop/h", Tenant: &hook.Tenant{Name: "shop"}, Kubernetes: []hook.Kubernetes{
		{Binding: hook.Binding{Name: "a"}}, {Binding: hook.Binding{Name: "b", Includes: []int{0}}}}}
	for name, ev := range map[string]event.Event{
		"included":        {Type: event.Change, Watch: event.Added, Hook: h, Index: 1, Object: event.Object{Name: "x"}},
		"Synchronization": {Type: event.Synchronization, Hook: h, Index: 0},
	} {
		r, got := splitting(t, t.TempDir(), 0)
		d := &doors{denied: map[int]bool{}}
		r.opts.Access, r.opts.Snapshots, r.opts.Confine = d, closing{doors: d},
			func(_ *hook.Tenant, env []string) ([]string, error) { return env, nil }
		r.Add([]*hook.Hook{h})
		if err := r.Task(ev).Run(t.Context()); err == nil || !strings.Contains(err.Error(), `may not read the objects of binding "a"`) ||
			len(got.runs) != 0 {
			t.Errorf("%s: error %v, runs %v", name, err, got.runs)
		}
	}
}
