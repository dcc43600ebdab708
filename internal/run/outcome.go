package run

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// messageError is a failure that the message of the hook describes.
type messageError struct {
	error
	hook, message string
}

func (m *messageError) Error() string {
	if exit, failed := errors.AsType[*process.ExitError](m.error); failed {
		return m.hook + " FAILED: " + exit.Cause(m.message)
	}
	return m.hook + " FAILED: " + m.message
}
func (m *messageError) Unwrap() error { return m.error }

// causedError is the failure of an attempt with its cause.
type causedError struct {
	error
	cause string
}

func (c *causedError) Unwrap() error { return c.error }
func (c *causedError) Cause() string { return c.cause }

// decidedError is a failure with what the hook has requested for the next attempt.
type decidedError struct {
	error
	effect.Result
}

func (d *decidedError) Unwrap() error { return d.error }
func (d *decidedError) GiveUp() bool  { return d.Result.GiveUp != "" }

// Cause returns the line about a failure that people read. It may quote what the hook printed.
func Cause(err error) string {
	if c, ok := errors.AsType[*causedError](err); ok {
		return c.cause
	}
	return process.Line(err.Error(), "")
}

// GaveUp returns the reason why a hook has requested no other attempt after a failure; it is empty if the hook has not.
func GaveUp(err error) string {
	var d *decidedError
	if !errors.As(err, &d) {
		return ""
	}
	return d.Result.GiveUp
}

func (d *decidedError) Error() string {
	if d.Result.GiveUp == "" {
		return d.error.Error()
	}
	return fmt.Sprintf("%s: the hook gave up: %s", d.error, d.Result.GiveUp)
}

// RetryAfter is the delay that the hook has requested.
func (d *decidedError) RetryAfter() (delay time.Duration, ok bool) {
	if d.Result.RetryAfter == nil {
		return 0, false
	}
	return d.Result.RetryAfter.Duration, true
}

// end ends an attempt that failed with err, or succeeded: what its task has waited for is done, unless the task is retried.
func (r *Runner) end(ctx context.Context, a *Attempt, err error) error {
	t := a.Task
	if review := t.readExtra().review; review != nil && err != nil {
		a.Response, _ = review.judge(Outputs{}, err)
	}
	if err != nil {
		a.Cause = process.Line(strings.TrimPrefix(err.Error(), t.Hook().Name+" FAILED: "), "")
		err = &causedError{err, a.Cause}
	}
	a.Wall, a.Err, a.Allowed, a.Interrupted = time.Since(a.started), err, t.mayFail(), err != nil && Interrupted(ctx)
	err = a.each(err, func(c Companion, outcome error) error { c.Done(ctx, a, outcome); return nil })
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil && !t.mayFail():
		return err
	case err != nil:
		a.Log.Info("Hook failed, but allowed to fail", "error", err.Error())
	case t.events.Len() > 0:
		a.Log.Info("Hook executed successfully")
		r.succeed(t, a)
	}
	r.opts.Finalizers.Release(ctx, t.finalized(r.keep(t, a.Result, err)))
	t.leave(err == nil)
	return nil
}

// leave is called when the queue is done with the task: its bindings are unlocked, and its objects may get another lane.
func (t *Task) leave(processed bool) {
	if m := t.readExtra(); len(m.unlocks) > 0 {
		t.runner.opts.Log.Info("Unlock kubernetes.Event tasks", t.LogFields()...)
		t.unlock()
	}
	for ev := range t.Events() {
		t.runner.opts.Pending.Leave(&ev, processed)
	}
}

// unlock unlocks the bindings of the task.
func (t *Task) unlock() {
	for _, index := range t.readExtra().unlocks {
		t.runner.opts.Snapshots.Unlock(t.Hook(), index)
	}
}

// finalized yields the events whose success removes a finalizer, except events of kept objects.
func (t *Task) finalized(kept map[string]bool) iter.Seq[event.Event] {
	return func(yield func(event.Event) bool) {
		for ev := range t.Events() {
			if uid := ev.Object.UID; uid != "" && !kept[uid] && !yield(ev) {
				return
			}
		}
	}
}

// keep sets when Deleting is delivered again of objects whose clean-up has another step, and returns their uids. A run that failed, allowed
// or not, keeps none.
func (r *Runner) keep(t *Task, result effect.Result, err error) map[string]bool {
	if !result.KeepFinalizer || err != nil {
		return nil
	}
	kept := map[string]bool{}
	for ev := range t.Events() {
		if ev.Watch == event.Deleted {
			delete(kept, ev.Object.UID) // no event of the object follows
		}
		if ev.Watch != event.Deleting {
			continue
		}
		stays, repeat := r.opts.Finalizers.Keep(ev)
		kept[ev.Object.UID] = stays
		if repeat {
			r.opts.Pending.Requeue(again(ev), r.due(requeueAfter(&ev, result)), t.readExtra().last.run)
		}
	}
	return kept
}

// Forget lets the objects of the task get another lane. It is called for a task that is dropped with its hook.
func (t *Task) Forget() {
	for ev := range t.Events() {
		t.runner.opts.Pending.Leave(&ev, true)
	}
}

// Skip ends a task without a run, as if it had been allowed to fail.
func (t *Task) Skip() { t.leave(false) }

// Exhaust ends a task that has no attempt left: its contexts are parked or, as its policy demands, dropped.
func (t *Task) Exhaust(queue, key string, attempts int, err error) (parked bool) {
	if t.Policy().Exhausted == hook.Drop {
		t.leave(false)
		return false
	}
	p, m := t.runner.opts.Pending, t.readExtra()
	displaced := p.Park(pending.ParkedTask{
		ID: t.ID(), Hook: t.Hook(), Queue: queue, Key: key, KeyValue: m.keyValue, Attempts: attempts, Error: Cause(err),
		GaveUp: GaveUp(err) != "", Since: time.Now(),
	}, m.last.run, t.Events())
	for _, ev := range displaced {
		t.runner.awaitRoom(&ev)
	}
	if t.runner.hooks.removed(t.Hook()) { // and what it had parked has been dropped in between
		p.Retain(func(h *hook.Hook) bool { return h != t.Hook() })
	}
	t.unlock()
	return true
}

// awaitRoom delivers a deletion again when there is room among the parked contexts.
func (r *Runner) awaitRoom(ev *event.Event) {
	again, ok := r.Deletion(ev)
	if !ok {
		return
	}
	r.opts.Pending.AwaitRoom(again, time.Now())
	if r.hooks.removed(ev.Hook) { // and what waits for it has been dropped in between
		r.opts.Pending.Retain(func(h *hook.Hook) bool { return h != ev.Hook })
	}
}

// Deletion returns a deletion that the watcher is to deliver again. If the object has left the selectors since its Deleting, that is
// Deleted, or nothing if Deleted has followed.
func (r *Runner) Deletion(ev *event.Event) (again event.Event, ok bool) {
	o, watch := ev.Object, ev.Watch
	if watch == event.Deleting {
		switch kept, again := r.opts.Finalizers.Keep(*ev); {
		case again:
		case kept || ev.Hook.Kubernetes[ev.Index].Deleted:
			return event.Event{}, false
		default:
			watch = event.Deleted
		}
	}
	return event.Event{Type: ev.Type, Hook: ev.Hook, Index: ev.Index, Watch: watch, Object: event.Object{
		Namespace: o.Namespace, Name: o.Name, Kind: o.Kind, UID: o.UID,
	}}, true
}

// succeed settles the events of a successful run: their requeues, what was parked before of them, and the previous versions.
func (r *Runner) succeed(t *Task, a *Attempt) {
	p, m := r.opts.Pending, t.readExtra()
	if m.review != nil || t.kind() == event.Startup {
		return
	}
	p.Succeeded(t.Hook())
	for ev := range t.Events() {
		s := pending.Success{Run: m.last.run, Gone: pending.IncludesPrevious(&ev) && r.isGone(&ev)}
		if after := requeueAfter(&ev, a.Result); after > 0 && r.exists(&ev) {
			s.Again, s.At = again(ev), r.due(after)
		}
		p.Done(&ev, s)
		if ev.Type != event.Synchronization || ev.Binding().Group != "" {
			continue
		}
		for _, one := range a.Result.Requeue {
			if now, ok := r.opts.Objects.Object(t.Hook(), ev.Index, one.Namespace, one.Name); ok {
				p.Requeue(again(now), r.due(one.After.Duration), m.last.run)
			}
		}
		for _, list := range a.Lists {
			if !listsPrevious(&ev) {
				break
			}
			list.Each(func(o event.Object) bool {
				p.Listed(&event.Event{Type: event.Change, Hook: ev.Hook, Index: ev.Index, Object: o}, m.last.run)
				return true
			})
		}
	}
}

// listsPrevious reports whether the objects of an initial list become previous versions.
func listsPrevious(ev *event.Event) bool {
	return ev.Type == event.Synchronization && ev.Binding().Group == "" && ev.Hook.Kubernetes[ev.Index].IncludePrevious
}

// isGone reports whether no later event ends what is kept of an object. A binding without Deleted events does not get one.
func (r *Runner) isGone(ev *event.Event) bool {
	if ev.Watch == event.Deleted {
		return true
	}
	return !ev.Hook.Kubernetes[ev.Index].Deleted && !r.opts.Objects.Has(ev.Hook, ev.Index, ev.Object.Namespace, ev.Object.Name)
}

// exists reports whether what an event is about can be delivered again.
func (r *Runner) exists(ev *event.Event) bool {
	if ev.Type != event.Change || ev.Binding().Group != "" {
		return true
	}
	_, ok := r.opts.Objects.Object(ev.Hook, ev.Index, ev.Object.Namespace, ev.Object.Name)
	return ok
}

// requeueAfter returns when a context is delivered again; 0 means never.
func requeueAfter(ev *event.Event, result effect.Result) time.Duration {
	if isUnlisted(ev) {
		return 0
	}
	if ev.Type == event.Change && ev.Binding().Group == "" {
		for _, one := range result.Requeue {
			if one.Namespace == ev.Object.Namespace && one.Name == ev.Object.Name {
				return one.After.Duration
			}
		}
	}
	return result.RequeueAfter.Duration
}

// requeueJitter is the largest part by which a delay differs from what the hook has requested, so that requeues spread.
const requeueJitter = 0.05

// due is when something is delivered again after a delay.
func (r *Runner) due(after time.Duration) time.Time {
	after = time.Duration(float64(after) * (1 - requeueJitter + 2*requeueJitter*r.opts.Random()))
	return time.Now().Add(after)
}

// again is an event as it is delivered again.
func again(ev event.Event) event.Event {
	again := event.Event{Type: ev.Type, Hook: ev.Hook, Index: ev.Index, Watch: event.Requeued, Object: event.Object{
		Namespace: ev.Object.Namespace, Name: ev.Object.Name, Kind: ev.Object.Kind,
	}}
	if ev.Watch == event.Deleting {
		again.Watch, again.Object.UID = event.Deleting, ev.Object.UID
	}
	if again.Type == event.Synchronization && ev.Binding().Group != "" {
		again.Type = event.Change // it gets the context of the group
	}
	return again
}
