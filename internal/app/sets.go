package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// findLostSets searches for sets whose hook is gone, and logs their number when it has grown. An operator that may not list the
// ConfigMaps of its namespace finds none.
func (op *operator) findLostSets(ctx context.Context, hooks []*hook.Hook) error {
	before, known := op.lostSets.Load(), len(op.lost())
	gone := func(name string) bool {
		return !slices.ContainsFunc(hooks, func(h *hook.Hook) bool { return h.Name == name })
	}
	op.effects.Sets().Drop(gone)
	all, err := op.effects.Sets().List(ctx)
	if kube.IsPermissionMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	lost := []applyset.Set{}
	for _, s := range all {
		if gone(s.Hook) {
			lost = append(lost, s)
		}
	}
	if !op.lostSets.CompareAndSwap(before, &lost) { // one was deleted meanwhile, and the next search follows
		return nil
	}
	if len(lost) > known {
		op.log.Warn("Sets of objects have no hook any more: their objects stay", "sets", len(lost), "hint",
			"'sets list' names them and their hooks: run 'sets adopt' or 'sets delete', or bring the hooks back")
	}
	return nil
}

// sweepEvery is the time between two searches for records of sets that have ended, firstSweep that before the first one: its lists of
// owners would delay the first runs of hooks.
const sweepEvery, firstSweep = time.Hour, time.Minute

// sweepSets deletes records of sets whose owner is gone, when this replica leads or owns shard 0, until ctx ends.
func (op *operator) sweepSets(ctx context.Context) {
	select {
	case <-op.once:
	case <-ctx.Done():
		return
	}
	for wait := firstSweep; ; wait = sweepEvery {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		err := op.effects.Sets().Sweep(op.fenced(ctx), op.log)
		if err != nil && !kube.IsPermissionMissing(err) && ctx.Err() == nil {
			op.log.Warn("Cannot search for records of sets whose owner is gone", "error", err.Error())
		}
	}
}

// lost are the sets whose hook is gone, as of the last search.
func (op *operator) lost() []applyset.Set {
	if lost := op.lostSets.Load(); lost != nil {
		return *lost
	}
	return nil
}

// fenced lets only the leader send the requests of a command.
func (op *operator) fenced(ctx context.Context) context.Context {
	if op.election == nil {
		return ctx
	}
	return op.election.Fence(ctx)
}

// setEnded removes a set from the lost ones.
func (op *operator) setEnded(id string) {
	for stored := false; !stored; {
		before, left := op.lostSets.Load(), []applyset.Set{}
		if before != nil {
			left = slices.DeleteFunc(slices.Clone(*before), func(s applyset.Set) bool { return s.ID == id })
		}
		stored = op.lostSets.CompareAndSwap(before, &left)
	}
	op.hooksChanged(nil)
}

// NewSetsClient returns a client for the routes of sets, and no others, that sends their requests to a cluster.
func NewSetsClient(cl *kube.Cluster, o Options) (*debug.Client, error) {
	sets, err := newSets(cl, o)
	if err != nil {
		return nil, err
	}
	hooks := &debug.Hooks{Active: func() []*hook.Hook { return []*hook.Hook{} }} // they are not known
	api := debug.New(debug.Options{Hooks: hooks, Log: o.Log})
	api.Show([]debug.Topic{debug.SetsTopic(debug.SetsOptions{Hooks: hooks, Sets: sets, Log: o.Log, NoOperator: true})})
	return debug.NewLocalClient(api), nil
}

// newSets makes an Applier without an operator.
func newSets(cl *kube.Cluster, o Options) (*applyset.Applier, error) {
	namespace, err := cl.OwnNamespace(o.Installation.Namespace)
	if err != nil {
		return nil, err
	}
	client, err := kube.NewClient(o.Patches.Client(cl.Config))
	if err != nil {
		return nil, err
	}
	return applyset.New(applyset.Options{
		Client: client, Resolver: kube.NewResolver(client), Instance: cl.Instance(o.Installation), Namespace: namespace, Version: o.Version,
		DryRun: o.Patches.DryRun, Log: o.Log,
	}), nil
}

// UninstallSets prunes the sets of an installation.
func UninstallSets(ctx context.Context, cl *kube.Cluster, o Options) error {
	sets, err := newSets(cl, o)
	if err != nil {
		return err
	}
	all, err := sets.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range all {
		if o.Patches.DryRun {
			errs = append(errs, planSet(ctx, sets, o.Log, &s))
			continue
		}
		deleted, released, err := sets.Delete(ctx, o.Log, s.ID)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of hook %q: %w", s.Name, s.Hook, err))
			continue
		}
		o.Log.Info("A set of objects is deleted", "hook", s.Hook, "set", s.Name, "deleted", deleted, "released", released)
	}
	return errors.Join(errs...)
}

// planSet logs what the deletion of a set would do.
func planSet(ctx context.Context, in *applyset.Applier, log *slog.Logger, s *applyset.Set) error {
	members, err := in.Show(ctx, log, s.ID)
	if err != nil {
		return fmt.Errorf("%s of hook %q: %w", s.Name, s.Hook, err)
	}
	kept := 0
	for _, m := range members {
		if m.Kept {
			kept++
		}
	}
	log.Info("Dry run: a set of objects would be deleted", "hook", s.Hook, "set", s.Name, "deleted", len(members)-kept, "released", kept)
	return nil
}
