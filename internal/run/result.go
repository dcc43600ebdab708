package run

import (
	"iter"
	"strconv"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// result parses the result file of an attempt. The lists are the initial ones in its contexts.
func (t *Task) result(text []byte, lists []event.Snapshot, failed bool) (effect.Result, error) {
	var objects map[objectName]bool
	unlisted, deleting := t.unlisted()
	return wire.ParseResult(text, wire.ResultRules{
		Failed: failed, MessageOnly: t.messageOnly(), Unlisted: unlisted, UnlistedDeleting: deleting,
		Deleting: t.deleting(),
		Contains: func(namespace, name string) bool {
			if objects == nil { // most results name none
				objects = map[objectName]bool{}
				for _, list := range lists {
					for o := range list.Each {
						objects[objectName{o.Namespace, o.Name}] = true
					}
				}
				for ev := range t.Events() {
					if ev.Type == event.Change && ev.Binding().Group == "" && !IsUnlisted(&ev) {
						objects[objectName{ev.Object.Namespace, ev.Object.Name}] = true
					}
				}
			}
			return objects[objectName{namespace, name}]
		},
	})
}

// deleting yields the objects whose Deleting is in the contexts.
func (t *Task) deleting() iter.Seq2[string, string] {
	return func(yield func(namespace, name string) bool) {
		for ev := range t.Events() {
			if ev.Watch == event.Deleting && !yield(ev.Object.Namespace, ev.Object.Name) {
				return
			}
		}
	}
}

// messageOnly names the kind of run whose result can only have a message; it is empty for others.
func (t *Task) messageOnly() string {
	switch {
	case t.readExtra().review != nil:
		return "a run that answers a request"
	case t.Type() == event.Startup:
		return "an onStartup run"
	case t.Hook().Contexts == hook.NameContexts:
		return "a hook with configuration v0"
	}
	return ""
}

// unlisted returns a binding without a Synchronization if all events of the task are of such ones, and one of a Deleting; "" for none.
func (t *Task) unlisted() (all, deleting string) {
	requeued := false
	for ev := range t.Events() {
		switch {
		case !IsUnlisted(&ev):
			requeued = true
			continue
		case ev.Watch == event.Deleting:
			deleting = ev.Binding().Name
		}
		all = ev.Binding().Name
	}
	if requeued {
		all = ""
	}
	return all, deleting
}

// IsUnlisted reports whether the binding of an event has no Synchronization: its events are not requeued.
func IsUnlisted(ev *event.Event) bool {
	return ev.Type.Kind() == hook.OnKubernetes && ev.Hook.Kubernetes[ev.Index].Initial == hook.InitialNone
}

type objectName struct{ namespace, name string }

// initialLists are those in the contexts of frames. Other snapshots are not kept during a run.
func initialLists(frames []wire.Context) (lists []event.Snapshot) {
	for _, frame := range frames {
		if frame.Objects != nil && frame.Event.Binding().Group == "" {
			lists = append(lists, frame.Objects)
		}
	}
	return lists
}

// attemptVariables are those that describe an attempt; a limit of 0 means none.
func attemptVariables(attempt, limit int, key string) []string {
	return []string{
		"HOOK_ATTEMPT=" + strconv.Itoa(attempt),
		"HOOK_ATTEMPT_LIMIT=" + strconv.Itoa(limit),
		"HOOK_QUEUE_KEY=" + key,
	}
}

// limit is the number of attempts of the task; 0 means no limit.
func (t *Task) limit() int {
	if t.readExtra().review != nil {
		return 1
	}
	p := t.Policy()
	if !p.Given && !t.mayFail() {
		return 0 // another task without allowFailure has joined
	}
	return p.Limit
}
