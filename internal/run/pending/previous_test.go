package pending

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// reading is a hook that reads what was before, and fails if the test asks for it. Its cluster has the objects in there.
type reading struct {
	world
	there map[string]bool
	list  many
	fail  bool
	got   string
	// during is called in the next run.
	during func()
}

func (r *reading) Execute(_ context.Context, in process.Invocation) (process.Result, error) {
	var contexts []struct {
		WatchEvent           string
		FilterResult         any
		PreviousFilterResult any
	}
	text, err := os.ReadFile(process.Variable(in.Vars, "BINDING_CONTEXT_PATH"))
	if err := errors.Join(err, json.Unmarshal(text, &contexts)); err != nil {
		return process.Result{}, err
	}
	var words []string
	for _, c := range contexts {
		text, _ := json.Marshal([]any{c.PreviousFilterResult, c.FilterResult})
		words = append(words, c.WatchEvent+string(text))
	}
	if during := r.during; during != nil {
		r.during = nil
		during()
	}
	if r.got = strings.Join(words, " "); r.fail {
		return process.Result{}, &process.ExitError{Status: "exit status 1"}
	}
	return process.Result{}, nil
}

func (r *reading) Object(_ *hook.Hook, _ int, _, name string) (event.Event, bool) {
	return event.Event{Object: event.Object{Name: name, Filtered: event.Memory("7")}}, r.there[name]
}
func (r *reading) Has(_ *hook.Hook, _ int, _, name string) bool { return r.there[name] }

func (r *reading) Synchronize(*hook.Hook, int) event.Snapshot { return r.list }

// The previous version is the one that the hook has processed in a run that succeeded, or earlier in the same run.
func TestPrevious(t *testing.T) {
	h := hookOf("--")
	for i := range h.Kubernetes {
		k := &h.Kubernetes[i]
		k.IncludePrevious, k.JQFilter, k.Deleted = true, ".", i == 0
	}
	world := &reading{there: map[string]bool{"web": true, "db": true}, list: many{{Name: "web", Filtered: event.Memory("1")}}}
	r, previous := running(t, world, world, Options{Objects: world}, 0)
	r.Add([]*hook.Hook{h})
	of := func(index int, watch event.Watch, name, result string) event.Event {
		return event.Event{Type: event.Change, Hook: h, Index: index, Watch: watch,
			Object: event.Object{Name: name, Filtered: event.Memory(result)}}
	}
	run := func(want string, events ...event.Event) {
		t.Helper()
		task := r.Task(events[0])
		for _, ev := range events[1:] {
			if !task.Absorb(r.Task(ev)) {
				t.Fatal("not absorbed")
			}
		}
		if err := task.Run(t.Context()); (err != nil) != world.fail {
			t.Fatal(errors.Join(err, errors.New(world.got)))
		}
		if world.got != want {
			t.Errorf("got %s, want %s", world.got, want)
		}
	}
	run("Modified[null,0]", of(0, event.Modified, "db", "0"))
	run("[null,null]", event.Event{Type: event.Synchronization, Hook: h})
	run("Modified[1,2]", of(0, event.Modified, "web", "2"))
	world.fail = true
	run("Modified[2,3]", of(0, event.Modified, "web", "3"))
	world.fail = false
	run("Modified[2,3] Modified[3,4]", of(0, event.Modified, "web", "3"), of(0, event.Modified, "web", "4"))
	run("[null,7]", of(0, event.Requeued, "web", "")) // type: Requeue; it reads the object again
	run("Modified[7,8]", of(0, event.Modified, "web", "8"))
	run("Deleted[8,8] Added[null,9] Modified[9,10]", of(0, event.Deleted, "web", "8"), of(0, event.Added, "web", "9"),
		of(0, event.Modified, "web", "10"))
	run("Deleted[10,10]", of(0, event.Deleted, "web", "10"))
	run("Modified[null,11]", of(0, event.Modified, "web", "11"))

	// Nothing is left of objects that are gone, whatever becomes of the events about them.
	for name, end := range map[string]func(){
		"skipped": func() { r.Task(of(0, event.Deleted, "web", "11")).Skip() },
		"dropped": func() {
			h.Kubernetes[0].AllowFailure = true
			r.Task(of(0, event.Deleted, "web", "11")).Exhaust("main", "", 1, errors.New("no"))
		},
		"allowed to fail": func() {
			h.Kubernetes[0].AllowFailure, world.fail = true, true
			if err := r.Task(of(0, event.Deleted, "web", "11")).Run(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"parked and dropped": func() {
			task := r.Task(of(0, event.Deleted, "web", "11"))
			task.Exhaust("main", "", 1, errors.New("no"))
			previous.Drop(task.ID(), 0)
		},
	} {
		run("Added[null,11]", of(0, event.Added, "web", "11"))
		end()
		h.Kubernetes[0].AllowFailure, world.fail = false, false
		ev := of(0, event.Modified, "web", "")
		if _, ok := previous.Last(&ev); ok {
			t.Errorf("%s: it is still there", name)
		}
	}
	// A Synchronization that is repeated does not bring back what runs have processed, or what has ended, in the meantime.
	world.list = many{{Name: "web", Filtered: event.Memory("1")}, {Name: "gone", Filtered: event.Memory("1")},
		{Name: "calm", Filtered: event.Memory("1")}}
	world.during = func() {
		run("Modified[null,2]", of(0, event.Modified, "web", "2"))
		run("Deleted[null,1]", of(0, event.Deleted, "gone", "1"))
	}
	run("[null,null]", event.Event{Type: event.Synchronization, Hook: h})
	run("Modified[2,3]", of(0, event.Modified, "web", "3"))
	run("Modified[null,2]", of(0, event.Modified, "gone", "2"))
	run("Modified[1,2]", of(0, event.Modified, "calm", "2"))

	// A binding without Deleted events has no event for that.
	world.there["db"] = false
	run("Modified[null,1]", of(1, event.Modified, "db", "1"))
	run("Modified[null,2]", of(1, event.Modified, "db", "2"))
	previous.Retain(func(*hook.Hook) bool { return false })
	run("Modified[null,3]", of(0, event.Modified, "db", "3"))
}
