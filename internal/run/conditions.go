package run

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// Outcome is the condition of an object that reports the outcome of a run.
type Outcome struct {
	// APIVersion and Kind are the kind that the binding names.
	APIVersion, Kind string
	Namespace, Name  string
	Condition        effect.Condition
	// Follow is called before the object is changed, as Conditions.Follow. It is nil after a Deleting, whose object has no later events, and
	// the condition is set although the object is being deleted.
	Follow func() (known []byte, written func(before, after string))
}

// Conditions is the Companion of hooks with conditions: it reports the outcome of a run in its objects before the run ends. If that fails,
// the run has failed.
type Conditions struct {
	Passive
	// Set reports outcomes in objects that exist and, but for outcomes without Follow, are not being deleted.
	Set func(ctx context.Context, log *slog.Logger, h *hook.Hook, outcomes []Outcome, identify Identify) error
	// Follow returns an object of a binding, if it is there in full and not known to be outdated, before Set changes it. With the resource
	// versions before and after, written suppresses the event of this change.
	Follow func(h *hook.Hook, index int, namespace, name string) (known []byte, written func(before, after string))
}

// Joins implements Companion.
func (c *Conditions) Joins(h *hook.Hook, answers bool) bool {
	return !answers && slices.ContainsFunc(h.Kubernetes, func(k hook.Kubernetes) bool { return k.Condition != "" })
}

// Settle sets the conditions.
func (c *Conditions) Settle(ctx context.Context, a *Attempt, outcome error) error {
	list := c.outcomes(a, outcome)
	if len(list) == 0 || ctx.Err() != nil {
		return nil
	}
	err := c.Set(ctx, a.Log, a.Hook, list, a.Task.identify(a.Lists))
	if err != nil && outcome == nil {
		err = fmt.Errorf("%s FAILED: %w", a.Hook.Name, err)
	}
	return err
}

// outcomes are the conditions of the objects in the contexts. Objects that are gone have none, also after their Deleting, and a failed
// Synchronization is about none of its objects.
func (c *Conditions) outcomes(a *Attempt, err error) (all []Outcome) {
	h := a.Task.Hook()
	add := func(index int, o event.Object) {
		k := &h.Kubernetes[index]
		all = append(all, Outcome{
			APIVersion: k.APIVersion, Kind: k.Kind, Namespace: o.Namespace, Name: o.Name, Condition: a.condition(k.Condition, err),
			Follow: func() ([]byte, func(before, after string)) {
				return c.Follow(h, index, o.Namespace, o.Name)
			},
		})
	}
	// A task of a binding with conditions is about one object or the initial list.
	last := map[int]event.Event{}
	for ev := range a.Task.Events() {
		if ev.Type.Kind() != hook.OnKubernetes || h.Kubernetes[ev.Index].Condition == "" {
			continue
		}
		if ev.Type == event.Synchronization && err == nil {
			for _, list := range a.Lists {
				list.Each(func(o event.Object) bool { add(ev.Index, o); return true })
			}
		}
		last[ev.Index] = ev
	}
	for _, index := range slices.Sorted(maps.Keys(last)) {
		ev := last[index]
		deleting := ev.Watch == event.Deleting
		if ev.Type != event.Change || ev.Watch == event.Deleted || deleting && err == nil && !a.Result.KeepFinalizer {
			continue // the object goes, or is gone
		}
		add(index, ev.Object)
		if deleting {
			o := &all[len(all)-1]
			if o.Follow = nil; err == nil {
				o.Condition.Status, o.Condition.Reason = "False", "Deleting"
			}
		}
	}
	return all
}

// Reports reports whether the task's run sets the condition of an object. One about a deletion does not, also if the name is used again.
func (t *Task) Reports(namespace, name string) (is bool) {
	for ev := range t.Events() {
		if ev.Type.Kind() == hook.OnKubernetes && t.Hook().Kubernetes[ev.Index].Condition != "" {
			is = ev.Type == event.Synchronization || ev.Watch != event.Deleted && ev.Object.Namespace == namespace && ev.Object.Name == name
		}
	}
	return is
}

// condition describes the outcome of an attempt.
func (a *Attempt) condition(kind string, err error) effect.Condition {
	c := effect.Condition{Type: kind, Status: "True", Reason: "Succeeded", Message: process.Printable(a.Result.Message)}
	if err == nil {
		return c
	}
	attempts, limit := a.Task.readExtra().last.attempts, a.Task.limit()
	c.Status, c.Reason = "Unknown", "Retrying"
	if a.Task.mayFail() || a.Result.GiveUp != "" || limit > 0 && attempts >= limit {
		c.Status, c.Reason = "False", "Failed"
	}
	report := Report{Err: err, Usage: a.Usage}
	c.Message = fmt.Sprintf("attempt %d", attempts)
	if limit > 0 {
		c.Message += fmt.Sprintf(" of %d", limit)
	}
	c.Message += ": " + report.Exit()
	for _, text := range []string{a.Result.GiveUp, a.Result.Message} {
		if text != "" {
			c.Message += ": " + process.Printable(text)
		}
	}
	return c
}
