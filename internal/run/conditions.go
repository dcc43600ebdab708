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

// Reporting are the changes of objects that report the outcome of a run.
type Reporting struct {
	Hook     string
	Patches  []effect.Patch
	Identify Identify
	// Follow is called before an object is read, as Conditions.Follow. Without written, the object is changed although it is being deleted.
	Follow func(p *effect.Patch) (known []byte, written func(before, after string))
}

// Conditions is the Companion of hooks with conditions: it reports the outcome of a run in its objects before the run ends. If that fails,
// the run has failed.
type Conditions struct {
	// Change applies the patches.
	Change func(ctx context.Context, log *slog.Logger, r Reporting) error
	// Follow returns an object of a binding, if it is there in full and not known to be outdated, before Change changes it. With the resource
	// versions before and after, written suppresses the event of this change.
	Follow func(h *hook.Hook, index int, namespace, name string) (known []byte, written func(before, after string))
}

// Joins implements Companion.
func (c *Conditions) Joins(h *hook.Hook, answers bool) bool {
	return !answers && slices.ContainsFunc(h.Kubernetes, func(k hook.Kubernetes) bool { return k.Condition != "" })
}

// Settle sets the conditions.
func (c *Conditions) Settle(ctx context.Context, a *Attempt, outcome error) error {
	patches, bindings := c.outcomes(a, outcome)
	if len(patches) == 0 || ctx.Err() != nil {
		return nil
	}
	of := make(map[*effect.Patch]int, len(patches))
	for i := range patches {
		of[&patches[i]] = bindings[i]
	}
	err := c.Change(ctx, a.Log, Reporting{a.Hook.Name, patches, a.Task.identify(a.Lists),
		func(p *effect.Patch) (known []byte, written func(before, after string)) {
			if of[p] == noLaterEvents {
				return nil, nil
			}
			return c.Follow(a.Hook, of[p], p.Namespace, p.Name)
		}})
	if err != nil && outcome == nil {
		err = fmt.Errorf("%s FAILED: %w", a.Hook.Name, err)
	}
	return err
}

// noLaterEvents is instead of a binding.
const noLaterEvents = -1

// outcomes are the conditions of the objects in the contexts. Objects that are gone have none, also after their Deleting, and a failed
// Synchronization is about none of its objects. Each has its binding, or noLaterEvents after a Deleting.
func (c *Conditions) outcomes(a *Attempt, err error) (all []effect.Patch, bindings []int) {
	h := a.Task.Hook()
	add := func(index int, o event.Object) {
		k := &h.Kubernetes[index]
		all = append(all, effect.Patch{
			Operation: effect.SetCondition, APIVersion: k.APIVersion, Kind: k.Kind, Namespace: o.Namespace, Name: o.Name,
			Subresource: "status", Condition: a.condition(k.Condition, err), IgnoreMissingObject: true,
		})
		bindings = append(bindings, index)
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
			bindings[len(all)-1] = noLaterEvents
			if c := all[len(all)-1].Condition; err == nil {
				c.Status, c.Reason = "False", "Deleting"
			}
		}
	}
	return all, bindings
}

// Reports reports whether the task's run sets the condition of an object of a binding. One about a deletion does not, also if the name is
// used again.
func (t *Task) Reports(index int, namespace, name string) (is bool) {
	for ev := range t.Events() {
		if ev.Type.Kind() == hook.OnKubernetes && ev.Index == index {
			is = ev.Type == event.Synchronization || ev.Watch != event.Deleted && ev.Object.Namespace == namespace && ev.Object.Name == name
		}
	}
	return is
}

// condition describes the outcome of an attempt.
func (a *Attempt) condition(kind string, err error) *effect.Condition {
	c := &effect.Condition{Type: kind, Status: "True", Reason: "Succeeded", Message: process.Printable(a.Result.Message)}
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
