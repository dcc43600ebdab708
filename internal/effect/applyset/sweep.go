package applyset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Sweep deletes the parents of sets whose owner is gone and that have no member left.
func (a *Applier) Sweep(ctx context.Context, log *slog.Logger) error {
	sets, err := a.List(ctx)
	if err != nil {
		return err
	}
	present := map[schema.GroupKind]map[SetOwner]bool{}
	var errs []error
	for i := range sets {
		if o := sets[i].Owner; o != nil && sets[i].Problem == "" {
			if _, known := present[o.groupKind()]; !known {
				found, err := a.owners(ctx, o.groupKind())
				present[o.groupKind()], errs = found, append(errs, err)
			}
		}
	}
	kube.Concurrently(len(sets), parallelRestores, func(i int) {
		s := &sets[i]
		if s.Owner == nil || s.Problem != "" {
			return
		}
		if owners := present[s.Owner.groupKind()]; owners == nil || owners[*s.Owner] {
			return
		}
		if err := a.sweep(ctx, log, s); err != nil && !errors.Is(err, errAbsent) && ctx.Err() == nil {
			log.Warn("The record of a set without an owner is not deleted", "hook", s.Hook, "set", s.Name, "owner", s.Owner.String(),
				"error", err.Error())
		}
	})
	return errors.Join(errs...)
}

// owners returns all objects of a kind, from a list of metadata; nil if they are not known.
func (a *Applier) owners(ctx context.Context, kind schema.GroupKind) (map[SetOwner]bool, error) {
	found := map[SetOwner]bool{}
	res, err := a.opts.Resolver.ResolveGroup(ctx, kind)
	if errors.As(err, new(*kube.UnknownKindError)) {
		return found, nil
	}
	var items []live
	if err == nil {
		items, err = a.list(ctx, res, "", "")
	}
	if kube.IsPermissionMissing(err) { // each owner is read
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the owners of sets of kind %s: %w", kind, err)
	}
	for i := range items {
		found[SetOwner{kind.Group, kind.Kind, items[i].Namespace, items[i].Name}] = true
	}
	return found, nil
}

// sweep deletes the parent of one set, if its owner is gone.
func (a *Applier) sweep(ctx context.Context, log *slog.Logger, set *Set) error {
	s, err := a.find(ctx, log, set.ID)
	if err != nil {
		return err
	}
	release, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := s.readOwner(ctx); err != nil || s.owner != nil {
		return err
	}
	_, err = s.read(ctx)
	if err = cmp.Or(err, errors.Join(s.incomplete...)); err != nil || len(s.members) > 0 {
		return err
	}
	if err = s.deleteParent(ctx); errors.Is(err, errOvertaken) { // it has one, or gets one
		return nil
	}
	return err
}
