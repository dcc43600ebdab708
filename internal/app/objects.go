package app

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

// objects asks the stages about one object.
type objects struct {
	*watch.Watcher
	op *operator
}

// Sight is a binding's knowledge of an object, with the changes that wait there.
func (o objects) Sight(h *hook.Hook, index int, namespace, name string) debug.Sight {
	is := o.Watcher.Sight(h, index, namespace, name)
	ev := event.Event{Type: event.Change, Hook: h, Index: index, Watch: event.Modified, Key: is.Key,
		Object: event.Object{Namespace: namespace, Name: name}}
	s := debug.Sight{JSON: is.JSON, Elsewhere: o.op.shards.elsewhereOf(is.Shard)}
	s.Sees, s.Deleting, s.HasFinalizer, s.AwaitsFinalizer = is.Sees, is.Deleting, is.Marked, is.Lacking
	s.Queue, s.Key = o.op.life.LaneOf(ev)
	s.InLane = o.op.queueSet().InLane(s.Queue, s.Key, h, index, namespace, name)
	later := o.op.pending
	s.Tasks = later.ParkedOf(&ev)
	if due, awaitsRoom, requeued := later.Requeued(&ev); requeued {
		s.Requeue = &debug.ObjectRequeue{AwaitsRoom: awaitsRoom}
		if !awaitsRoom {
			s.Requeue.Due = &due
		}
	}
	return s
}

func (op *operator) queueSet() debug.QueueSet {
	return debug.QueueSet{Set: op.queues, Requeues: func() []pending.Due { return op.pending.Due() },
		Removed: func(h *hook.Hook) bool { return op.life.State(h) == lifecycle.Gone }}
}

// Parts are the roles of an object in sets.
func (o objects) Parts(kind, namespace, name string) []applyset.Part {
	return o.op.effects.Sets().Parts(func(of schema.GroupKind) bool {
		return strings.EqualFold(kind, of.Kind) || strings.EqualFold(kind, of.String())
	}, namespace, name)
}
