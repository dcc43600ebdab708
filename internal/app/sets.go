package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// findLostSets searches for sets whose hook is gone, and logs those that an earlier search has not found. An operator that may not list the ConfigMaps
// of its namespace finds none.
func (op *operator) findLostSets(ctx context.Context, hooks []*hook.Hook) error {
	before, logged := op.lostSets.Load(), op.lostByHook()
	op.effects.Sets().DropLost()
	all, err := op.effects.Sets().ListOwn(ctx)
	if kube.IsPermissionMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(all) > 0 {
		op.finalizers.Announce(true)
		if others := op.finalizers.AwaitOthers(ctx); slices.ContainsFunc(others, func(o finalizer.Other) bool { return o.Alive }) {
			all = nil // it may have their hooks
		}
	}
	lost := []debug.Set{}
	for _, s := range all {
		if !slices.ContainsFunc(hooks, func(h *hook.Hook) bool { return h.Name == s.Hook }) {
			lost = append(lost, shownSet(&s))
		}
	}
	if !op.lostSets.CompareAndSwap(before, &lost) { // one was deleted meanwhile, and the next search follows
		return nil
	}
	op.logLost(logged)
	return nil
}

// shownHooks is the maximum of hooks that have a record of their own.
const shownHooks = 5

// logLost logs the sets whose hook is gone, but those that are logged.
func (op *operator) logLost(logged map[string]int) {
	const message = "Sets of objects have no hook any more: their objects stay"
	counts := op.lostByHook()
	maps.DeleteFunc(counts, func(name string, n int) bool { return n == logged[name] })
	if len(counts) > shownHooks {
		n := 0
		for _, sets := range counts {
			n += sets
		}
		op.log.Warn(message, "hooks", len(counts), "sets", n, "hint", "run 'sets list', then 'sets adopt' or 'sets delete', or bring the hooks back")
		return
	}
	for name, n := range counts {
		op.log.Warn(message, "hook", name, "sets", n, "hint", "run 'sets adopt' or 'sets delete' with --hook "+hook.Word(name)+", or bring the hook back")
	}
}

func (op *operator) lostByHook() map[string]int {
	counts := map[string]int{}
	if lost := op.lostSets.Load(); lost != nil {
		for _, s := range *lost {
			counts[s.Hook]++
		}
	}
	return counts
}

// orphanedSets counts the sets whose hook is gone, by hook, for a scrape. A text that is no name of a hook is no label.
func (op *operator) orphanedSets() map[string]int {
	counts := map[string]int{}
	for name, n := range op.lostByHook() {
		if !hook.IsName(name) {
			name = "invalid name"
		}
		counts[name] += n
	}
	return counts
}

// sweepEvery is the time between two searches for records of sets that have ended.
const sweepEvery = time.Hour

// sweepSets deletes records of sets whose owner is gone, when this replica leads, until ctx ends.
func (op *operator) sweepSets(ctx context.Context) {
	select {
	case <-op.leading:
	case <-ctx.Done():
		return
	}
	for {
		err := op.effects.Sets().Sweep(op.fenced(ctx), op.log)
		if err != nil && !kube.IsPermissionMissing(err) && ctx.Err() == nil {
			op.log.Warn("Cannot search for records of sets whose owner is gone", "error", err.Error())
		}
		select {
		case <-time.After(sweepEvery):
		case <-ctx.Done():
			return
		}
	}
}

func shownSet(s *applyset.Set) debug.Set {
	shown := debug.Set{ID: s.ID, Name: s.Name, Hook: s.Hook, Namespace: s.Namespace, Problem: s.Problem}
	if s.Owner != nil {
		shown.Owner = s.Owner.String()
	}
	return shown
}

// Sets are those of this installation.
func (i *insight) Sets(ctx context.Context) ([]debug.Set, error) {
	return listSets(ctx, i.op.effects.Sets())
}

func listSets(ctx context.Context, in *applyset.Applier) (all []debug.Set, err error) {
	sets, err := in.List(ctx)
	in.Count(ctx, sets)
	for _, s := range sets {
		shown := shownSet(&s)
		if s.Members >= 0 {
			shown.Members = &s.Members
		}
		all = append(all, shown)
	}
	return all, err
}

// LostSets are those whose hook is gone, as of the last search.
func (i *insight) LostSets() []debug.Set {
	if lost := i.op.lostSets.Load(); lost != nil {
		return *lost
	}
	return nil
}

// SetMembers are the objects of a set.
func (i *insight) SetMembers(ctx context.Context, set debug.Set) ([]debug.SetMember, error) {
	return showSet(ctx, i.op.effects.Sets(), i.op.log, set)
}

func showSet(ctx context.Context, in *applyset.Applier, log *slog.Logger, set debug.Set) (all []debug.SetMember, err error) {
	members, err := in.Show(ctx, log, set.Namespace, set.ID)
	for _, m := range members {
		all = append(all, debug.SetMember{Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, State: string(m.State), Reason: m.Reason, Kept: m.Kept})
	}
	return all, err
}

// DeleteSet prunes a set.
func (a actions) DeleteSet(ctx context.Context, set debug.Set) (deleted, released int, err error) {
	deleted, released, err = a.op.effects.Sets().Delete(a.op.fenced(ctx), a.op.log, set.Namespace, set.ID)
	if err == nil {
		a.op.setEnded(set.ID)
	}
	return deleted, released, err
}

// AdoptSet moves a set to another hook or name.
func (a actions) AdoptSet(ctx context.Context, set, to debug.Set, join, dryRun bool) (id string, moved int, err error) {
	id, moved, err = adoptSet(a.op.fenced(ctx), a.op.effects.Sets(), a.op.log, set, to, join, dryRun)
	if err == nil && !dryRun {
		a.op.setEnded(set.ID)
	}
	return id, moved, err
}

func adoptSet(ctx context.Context, in *applyset.Applier, log *slog.Logger, set, to debug.Set, join, dryRun bool) (id string, moved int, err error) {
	return in.Adopt(ctx, log, set.Namespace, set.ID, applyset.Move{Hook: to.Hook, Name: to.Name, Join: join, Check: dryRun})
}

// fenced makes the requests of a command those of the leader.
func (op *operator) fenced(ctx context.Context) context.Context {
	if op.election == nil {
		return ctx
	}
	return op.election.Fence(ctx)
}

// setEnded removes a set from the lost ones.
func (op *operator) setEnded(id string) {
	for stored := false; !stored; {
		before, left := op.lostSets.Load(), []debug.Set{}
		if before != nil {
			left = slices.DeleteFunc(slices.Clone(*before), func(s debug.Set) bool { return s.ID == id })
		}
		stored = op.lostSets.CompareAndSwap(before, &left)
	}
	op.hooksChanged(nil)
}

// clusterSets are the sets of an installation whose operator need not run.
type clusterSets struct {
	debug.Operator
	debug.Actions
	sets *applyset.Applier
	log  *slog.Logger
}

// NewSetsClient returns a client for the routes of sets, and no others, that sends their requests to a cluster.
func NewSetsClient(cl *kube.Cluster, o Options) (*debug.Client, error) {
	sets, err := newSets(cl, o)
	if err != nil {
		return nil, err
	}
	c := &clusterSets{sets: sets, log: o.Log}
	return debug.NewLocalClient(debug.New(debug.Options{Operator: c, Actions: c, NoOperator: true, Log: o.Log})), nil
}

// Hooks are not known.
func (c *clusterSets) Hooks() []*hook.Hook { return []*hook.Hook{} }

func (c *clusterSets) Sets(ctx context.Context) ([]debug.Set, error) {
	return listSets(ctx, c.sets)
}

func (c *clusterSets) SetMembers(ctx context.Context, set debug.Set) ([]debug.SetMember, error) {
	return showSet(ctx, c.sets, c.log, set)
}

func (c *clusterSets) DeleteSet(ctx context.Context, set debug.Set) (deleted, released int, err error) {
	return c.sets.Delete(ctx, c.log, set.Namespace, set.ID)
}

func (c *clusterSets) AdoptSet(ctx context.Context, set, to debug.Set, join, dryRun bool) (id string, moved int, err error) {
	return adoptSet(ctx, c.sets, c.log, set, to, join, dryRun)
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
		Client: client, Resolver: kube.NewResolver(client), Instance: cl.Instance(o.Installation), Namespace: namespace, Version: o.Version, DryRun: o.Patches.DryRun, Log: o.Log,
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
		deleted, released, err := sets.Delete(ctx, o.Log, s.Namespace, s.ID)
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
	members, err := in.Show(ctx, log, s.Namespace, s.ID)
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
