package run

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// hookOf makes a hook with one kubernetes binding per letter; the letter is its group, "-" is none.
func hookOf(letters string) *hook.Hook {
	h := &hook.Hook{Name: "h"}
	for i, c := range letters {
		k := hook.Kubernetes{Queue: hook.MainQueue}
		k.Name = string(rune('a' + i))
		if c != '-' {
			k.Group = string(c)
		}
		h.Kubernetes = append(h.Kubernetes, k)
	}
	return h
}

func change(h *hook.Hook, index int) event.Event {
	return event.Event{Type: event.Change, Hook: h, Index: index, Watch: event.Added}
}

func names(t *Task) string {
	var b strings.Builder
	for ev := range t.Events() {
		b.WriteString(ev.Binding().Name)
	}
	return b.String()
}

func TestAbsorbCompactsGroups(t *testing.T) {
	for groups, want := range map[string]string{
		"xx-xyy": "bcdf", // x x - x y y becomes x - x y
		"---":    "abc",
		"xxxx":   "d",
		"xyxy":   "abcd",
		"x":      "a",
	} {
		h := hookOf(groups)
		r := New(Options{})
		head := r.Task(change(h, 0))
		for i := 1; i < len(groups); i++ {
			if !head.Absorb(r.Task(change(h, i))) {
				t.Fatalf("%s: event %d is not absorbed", groups, i)
			}
		}
		if got := names(head); got != want {
			t.Errorf("groups %s: contexts of %s, want %s", groups, got, want)
		}
	}
}

// A limit counts contexts: events of one group still become one.
func TestAbsorbGroupWithinALimit(t *testing.T) {
	h := hookOf("xxy")
	h.Settings.ContextsPerRun = 1
	r := New(Options{})
	head := r.Task(change(h, 0))
	if !head.Absorb(r.Task(change(h, 1))) || head.Absorb(r.Task(change(h, 2))) || names(head) != "b" {
		t.Errorf("contexts of %s, want b", names(head))
	}
}

func TestWhatIsNotAbsorbed(t *testing.T) {
	h, other := hookOf("--gg"), hookOf("-")
	limited := hookOf("--")
	limited.Settings.ContextsPerRun = 1
	legacy := hookOf("--")
	legacy.Contexts, legacy.Settings.ContextsPerRun = hook.NameContexts, 1
	skipped := hookOf("g-")
	skipped.Kubernetes[0].Initial = hook.InitialNone
	r := New(Options{})
	synchronization := func(h *hook.Hook, i int) event.Event {
		return event.Event{Type: event.Synchronization, Hook: h, Index: i}
	}
	for _, tt := range []struct {
		name       string
		head, next event.Event
	}{
		{"another hook", change(h, 0), change(other, 0)},
		{"a Synchronization behind an event", change(h, 0), synchronization(h, 1)},
		{"an event behind a Synchronization", synchronization(h, 2), change(h, 2)},
		{"Synchronizations without a group", synchronization(h, 0), synchronization(h, 1)},
		{"a group's Synchronization and one without", synchronization(h, 2), synchronization(h, 1)},
		{"more contexts than the hook wants", change(limited, 0), change(limited, 1)},
		{"contexts of a legacy hook", change(legacy, 0), change(legacy, 1)},
		{"behind a Synchronization that runs nothing", synchronization(skipped, 0), change(skipped, 1)},
		{"behind start-up", event.Event{Type: event.Startup, Hook: h}, change(h, 0)},
	} {
		if r.Task(tt.head).Absorb(r.Task(tt.next)) {
			t.Errorf("absorbed: %s", tt.name)
		}
	}
}

func TestAbsorbSynchronizationsOfAGroup(t *testing.T) {
	h := hookOf("ggg")
	h.Kubernetes[1].Initial = hook.InitialNone
	r := New(Options{})
	head := r.Task(event.Event{Type: event.Synchronization, Hook: h, Index: 0})
	for i := 1; i < 3; i++ {
		if !head.Absorb(r.Task(event.Event{Type: event.Synchronization, Hook: h, Index: i})) {
			t.Fatalf("Synchronization %d is not absorbed", i)
		}
	}
	if len(head.extra.unlocks) != 3 {
		t.Errorf("%d bindings will be unlocked, want 3", len(head.extra.unlocks))
	}
	if got := names(head); got != "c" {
		t.Errorf("contexts of %s, want c", got)
	}
}

// Coalescing is for changes that have just happened, as long as a run may have more of them.
func TestCollects(t *testing.T) {
	h := hookOf("---")
	h.Schedules = []hook.Schedule{{Binding: hook.Binding{Name: "tick"}}}
	three := *h
	three.Settings.ContextsPerRun = 3
	large := func(h *hook.Hook, bytes int) event.Event {
		ev := change(h, 0)
		ev.Object.Full = event.Memory(make([]byte, bytes))
		return ev
	}
	watched := func(w event.Watch, retried bool) event.Event {
		ev := change(h, 0)
		ev.Watch, ev.Retried = w, retried
		return ev
	}
	group := hookOf("g")
	grouped := func(w event.Watch, retried bool) event.Event {
		ev := watched(w, retried)
		ev.Hook = group
		return ev
	}
	initial := change(h, 0)
	initial.Initial = true
	tick := event.Event{Type: event.Tick, Hook: h}
	r := New(Options{MaxContextBytes: 1000})
	for _, tt := range []struct {
		name   string
		events []event.Event
		want   bool
	}{
		{"a change", []event.Event{change(h, 0)}, true},
		{"changes of several bindings", []event.Event{change(h, 0), change(h, 1), watched(event.Deleting, false)}, true},
		{"fewer than contextsPerRun", []event.Event{change(&three, 0), change(&three, 1)}, true},
		{"as many as contextsPerRun", []event.Event{change(&three, 0), change(&three, 1), change(&three, 2)}, false},
		{"fewer bytes than a run may have", []event.Event{large(h, 100), large(h, 400), large(h, 400)}, true},
		{"more bytes", []event.Event{large(h, 100), large(h, 900), large(h, 900)}, false},
		{"a tick", []event.Event{tick}, false},
		{"a tick behind a change", []event.Event{change(h, 0), tick}, false},
		{"a requeue", []event.Event{watched(event.Requeued, false)}, false},
		{"a requeue behind a change", []event.Event{change(h, 0), watched(event.Requeued, false)}, false},
		{"a retried event", []event.Event{change(h, 0), watched(event.Modified, true)}, false},
		{"a requeue of a group", []event.Event{grouped(event.Requeued, false)}, false},
		{"a retried event of a group", []event.Event{grouped(event.Modified, true)}, false},
		{"a change of a group behind its requeue", []event.Event{grouped(event.Requeued, false), grouped(event.Modified, false)}, false},
		{"initial objects", []event.Event{initial, initial}, false},
		{"a change behind an initial object", []event.Event{initial, change(h, 0)}, false},
		{"an initial object behind a change", []event.Event{change(h, 0), initial}, false},
		{"a Synchronization", []event.Event{{Type: event.Synchronization, Hook: h}}, false},
		{"onStartup", []event.Event{{Type: event.Startup, Hook: h}}, false},
	} {
		head := r.Task(tt.events[0])
		for _, ev := range tt.events[1:] {
			if !head.Absorb(r.Task(ev)) {
				t.Fatalf("%s: not absorbed", tt.name)
			}
		}
		if got := head.Collects(); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
	split := r.Task(change(h, 0))
	split.Absorb(r.Task(change(h, 1)))
	if split.split(1); split.Rest().Collects() {
		t.Error("what did not fit into a run waits")
	}
}

func TestMergedRunMayFailOnlyIfAllMay(t *testing.T) {
	h := hookOf("---")
	h.Kubernetes[0].AllowFailure, h.Kubernetes[1].AllowFailure = true, true
	r := New(Options{})
	head := r.Task(change(h, 0))
	head.Absorb(r.Task(change(h, 1)))
	if !head.mayFail() {
		t.Error("both may fail, the run may not")
	}
	head.Absorb(r.Task(change(h, 2)))
	if head.mayFail() {
		t.Error("one of three must not fail, the run may")
	}
}
