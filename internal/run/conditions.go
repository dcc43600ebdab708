package run

import (
	"context"
	"errors"
	"fmt"
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
	// Follow is called before the object is changed, as Objects.Follow. It is nil after a Deleting, whose object has no later events, and
	// the condition is set although the object is being deleted.
	Follow func() (known []byte, written func(before, after string))
}

// report sets the conditions that report the outcome of a run, which is err, and returns the outcome with their failure.
func (r *Runner) report(ctx context.Context, a *Attempt, err error) error {
	list := r.outcomes(a, err)
	if len(list) == 0 || ctx.Err() != nil {
		return err
	}
	failed := r.opts.Effects.SetConditions(ctx, a.Log, a.Task.Hook(), list, a.Task.identify(a.lists))
	var decided *decidedError
	switch {
	case failed == nil:
		return err
	case err == nil:
		return fmt.Errorf("%s FAILED: %w", a.Task.Hook().Name, failed)
	case errors.As(err, &decided): // what the hook has requested stays
		return &decidedError{errors.Join(decided.error, failed), decided.Result}
	}
	return errors.Join(err, failed)
}

// outcomes are the conditions of the objects in the contexts. Objects that are gone have none, also after their Deleting, and a failed
// Synchronization is about none of its objects.
func (r *Runner) outcomes(a *Attempt, err error) (all []Outcome) {
	h := a.Task.Hook()
	if !slices.ContainsFunc(h.Kubernetes, func(k hook.Kubernetes) bool { return k.Condition != "" }) {
		return nil
	}
	add := func(index int, o event.Object) {
		k := &h.Kubernetes[index]
		all = append(all, Outcome{
			APIVersion: k.APIVersion, Kind: k.Kind, Namespace: o.Namespace, Name: o.Name, Condition: a.condition(k.Condition, err),
			Follow: func() ([]byte, func(before, after string)) {
				return r.opts.Objects.Follow(h, index, o.Namespace, o.Name)
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
			for _, list := range a.lists {
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
