package lifecycle

import (
	"errors"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run/pending"
)

// RetryQueue ends the delay of a lane, or of all lanes of a queue, and returns of how many.
func (l *Lifecycle) RetryQueue(name, key string, all bool) (ended int) {
	return l.o.Queues.Retry(func(queue, k string, _ queue.Task) bool { return queue == name && (all || k == key) })
}

// SkipTask drops the head of a lane if it has failed and does not run. A Synchronization unlocks its bindings; later steps of a hook do not
// wait for an onStartup run.
func (l *Lifecycle) SkipTask(name, key string) (queue.Failed, bool) {
	f, ok := l.o.Queues.Skip(name, key)
	if t, is := f.Task.(Task); ok && is {
		t.Skip()
		l.o.Log.Warn("Failed task skipped on request", append(t.LogFields(), "key", key, "attempts", f.Failures, "contexts", t.Describe())...)
	}
	return f, ok
}

// StopRun ends the process of a run for a queue as its time limit would, unless it is a dry run. It returns false if no process of it runs,
// and otherwise why no other attempt follows, or about how long after its end that begins.
func (l *Lifecycle) StopRun(id string, dryRun bool) (last string, delay time.Duration, ok bool) {
	s, ok := l.o.Runner.Stop(id, dryRun)
	if !ok || s.Last != "" {
		return s.Last, 0, ok
	}
	return "", l.o.Queues.Delay(policyOf(s.Policy), s.Attempt), true
}

// PauseQueue lets no run of a queue start until ResumeQueue.
func (l *Lifecycle) PauseQueue(name string) { l.o.Queues.Pause(name) }

// ResumeQueue ends PauseQueue.
func (l *Lifecycle) ResumeQueue(name string) { l.o.Queues.Resume(name) }

// Errors of Trigger.
var (
	ErrPaused     = errors.New("the hook is paused: run 'hook resume' first")
	ErrNotStarted = errors.New("the hook has not started yet: its binding delivers events later")
	ErrNoInitial  = errors.New("the binding has executeHookOnSynchronization: false")
	ErrAnswers    = errors.New("the binding answers requests: only onStartup, schedule and kubernetes bindings can be triggered")
	ErrNoObject   = errors.New("there is no such object in its snapshot: 'why --object' has the reason")
	ErrNoEvents   = errors.New("its executeHookOnEvent has neither Modified nor Added")
)

// Trigger queues a tick, an onStartup run or a Synchronization, and returns the id of its task. Of a binding that delivers its initial list
// as events there is no task of its own: Added events of all objects follow. A check queues nothing.
func (l *Lifecycle) Trigger(h *hook.Hook, a hook.Address, check bool) (id string, err error) {
	if err := l.triggerable(h); err != nil || check {
		return "", err
	}
	t := Task{}
	switch a.Kind {
	case hook.OnStart:
		t.Task = l.o.Runner.Task(event.Event{Type: event.Startup, Hook: h})
		l.o.Queues.Add(hook.MainQueue, "", t)
	case hook.OnSchedule:
		var key string
		t, key = l.task(event.Event{Type: event.Tick, Hook: h, Index: a.Index})
		l.o.Queues.Add(t.Queue(), key, t)
	case hook.OnKubernetes:
		switch h.Kubernetes[a.Index].Initial {
		case hook.InitialNone:
			return "", ErrNoInitial
		case hook.InitialEvents:
			l.o.Objects.Announce(h, a.Index)
			return "", nil
		}
		// The binding is unlocked: a requeued Synchronization leaves it so.
		t.Task = l.o.Runner.Trigger(event.Event{Type: event.Synchronization, Hook: h, Index: a.Index, Watch: event.Requeued}, hook.MainQueue)
		l.o.Queues.AddFirst(hook.MainQueue, "", t)
	default:
		return "", ErrAnswers
	}
	l.o.Log.Info("Task queued on request", t.LogFields()...)
	return t.ID(), nil
}

// TriggerObject queues Modified, or Added for a binding without it, of an object of a binding. Each attempt has the object of its moment. A
// check queues nothing.
func (l *Lifecycle) TriggerObject(h *hook.Hook, index int, namespace, name string, check bool) error {
	if err := l.triggerable(h); err != nil {
		return err
	}
	ev, ok := l.o.Objects.Object(h, index, namespace, name)
	switch k := &h.Kubernetes[index]; {
	case !ok:
		return ErrNoObject
	case k.Modified:
		ev.Watch = event.Modified
	case k.Added:
		ev.Watch = event.Added
	default:
		return ErrNoEvents
	}
	if ev.Retried = true; !check {
		l.Queue(ev)
	}
	return nil
}

func (l *Lifecycle) triggerable(h *hook.Hook) error {
	switch s, active := l.view.Load().states[h]; {
	case s == Paused:
		return ErrPaused
	case !active || s < Released:
		return ErrNotStarted
	}
	return nil
}

// Parked are the parked tasks, the oldest first, with at most so many of their events.
func (l *Lifecycle) Parked(events int) []pending.ParkedTask {
	return l.o.Pending.Parked(events)
}

// LostParked counts the contexts of each hook that --max-parked has dropped since its last success.
func (l *Lifecycle) LostParked() map[*hook.Hook]int { return l.o.Pending.Lost() }

// RetryParked queues an event for each subject of parked tasks, and returns the ids of those that there were.
func (l *Lifecycle) RetryParked(ids ...string) (retried []string) {
	for _, id := range ids {
		p, ok := l.o.Pending.Retry(id)
		if !ok {
			continue
		}
		retried = append(retried, id)
		l.o.Log.Info("Parked task retried on request", "hook", p.Hook.Name, "queue", p.Queue, "key", p.Key, "parked", id, "contexts", p.Contexts)
		for _, ev := range p.Events {
			if ev.Watch != event.Deleting {
				l.deliver(ev)
			} else if ev, ok := l.o.Pending.Deletion(&ev); ok {
				l.deliver(ev)
			}
		}
	}
	return retried
}

// DropParked drops the contexts of parked tasks. It returns the ids of those that there were.
func (l *Lifecycle) DropParked(ids ...string) (dropped []string) {
	for _, id := range ids {
		if p, ok := l.o.Pending.Drop(id, 0); ok {
			dropped = append(dropped, id)
			l.o.Log.Warn("Parked task dropped on request", "hook", p.Hook.Name, "queue", p.Queue, "key", p.Key, "parked", id, "contexts", p.Contexts)
		}
	}
	return dropped
}
