package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// findLostSets searches for sets whose hook is gone, and logs those that an earlier search has not found. An operator that may not list ConfigMaps
// finds none.
func (op *operator) findLostSets(ctx context.Context, hooks []*hook.Hook) error {
	before, logged := op.lostSets.Load(), op.orphanedSets()
	op.effects.Sets().DropLost()
	all, _, err := op.effects.Sets().List(ctx)
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
	lost, counts := []debug.Set{}, map[string]int{}
	for _, s := range all {
		if !slices.ContainsFunc(hooks, func(h *hook.Hook) bool { return h.Name == s.Hook }) {
			lost = append(lost, shownSet(&s))
			counts[s.Hook]++
		}
	}
	if !op.lostSets.CompareAndSwap(before, &lost) { // one was deleted meanwhile, and the next search follows
		return nil
	}
	for name, n := range counts {
		if n == logged[name] {
			continue
		}
		op.log.Warn("Sets of objects have no hook any more: their objects stay", "hook", name, "sets", n, "hint", "run 'sets adopt' or 'sets delete' with --hook "+name+", or bring the hook back")
	}
	return nil
}

// orphanedSets counts the sets whose hook is gone, by hook.
func (op *operator) orphanedSets() map[string]int {
	counts := map[string]int{}
	if lost := op.lostSets.Load(); lost != nil {
		for _, s := range *lost {
			counts[s.Hook]++
		}
	}
	return counts
}

func shownSet(s *applyset.Set) debug.Set {
	shown := debug.Set{ID: s.ID, Name: s.Name, Hook: s.Hook, Namespace: s.Namespace, Problem: s.Problem}
	if s.Owner != nil {
		shown.Owner = s.Owner.String()
	}
	return shown
}

// Sets are those of this installation.
func (i *insight) Sets(ctx context.Context) ([]debug.Set, string, error) {
	return listSets(ctx, i.op.effects.Sets())
}

func listSets(ctx context.Context, in *applyset.Applier) (all []debug.Set, hidden string, err error) {
	sets, hidden, err := in.List(ctx)
	in.Count(ctx, sets)
	for _, s := range sets {
		shown := shownSet(&s)
		if s.Members >= 0 {
			shown.Members = &s.Members
		}
		all = append(all, shown)
	}
	return all, hidden, err
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

func (c *clusterSets) Sets(ctx context.Context) ([]debug.Set, string, error) {
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
	all, hidden, err := sets.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if hidden != "" {
		errs = append(errs, errors.New(hidden))
	}
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
