package simulate

import (
	"context"
	"fmt"
	"slices"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// keepSets notes the latest Sync of each set.
func (s *simulation) keepSets(patches []effect.Patch) {
	for _, p := range patches {
		if p.Set == nil {
			continue
		}
		s.sets = slices.DeleteFunc(s.sets, func(old *effect.ObjectSet) bool {
			a, b := old.Owner, p.Set.Owner
			return old.Name == p.Set.Name && (a == b || a != nil && b != nil && a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name)
		})
		s.sets = append(s.sets, p.Set)
	}
}

// setOf returns the set that has an object and restores it, or nil.
func (s *simulation) setOf(o memory.Object) *effect.ObjectSet {
	i := slices.IndexFunc(s.sets, func(set *effect.ObjectSet) bool {
		return set.Restore && s.lives(set.Owner) && slices.ContainsFunc(set.Objects, func(m effect.Member) bool {
			kind, known := s.server.Resolve(m.APIVersion, m.Kind)
			return known && kind.GroupResource() == o.Kind.GroupResource() && m.Name == o.Name && (m.Namespace == o.Namespace || m.Namespace == "")
		})
	})
	if i < 0 {
		return nil
	}
	return s.sets[i]
}

// lives reports whether the owner of a set exists and is not being deleted: otherwise nothing is restored.
func (s *simulation) lives(owner *effect.Owner) bool {
	if owner == nil {
		return true
	}
	kind, _ := s.server.Resolve(owner.APIVersion, owner.Kind)
	o, found := s.server.Get(memory.Object{Kind: kind, Namespace: owner.Namespace, Name: owner.Name})
	head, err := testfile.HeadOf(o.JSON)
	return found && err == nil && head.Metadata.DeletionTimestamp == ""
}

// restore does for members of sets that events have deleted or changed what the operator does when its watch has delivered that. Like a
// change by the hook, it makes no event.
func (s *simulation) restore(ctx context.Context) error {
	changed := s.touched
	s.touched = nil
	for _, o := range changed {
		set := s.setOf(o)
		if set == nil {
			continue
		}
		if err := s.effects.Sets().Sync(ctx, silent(), s.hook.Name, set, func(string, ...kube.Rule) {}); err != nil {
			s.result.Notes = append(s.result.Notes, fmt.Sprintf("%s, a member of the set %q, is not restored: %v", o.Ref(), set.Name, err))
		} else if err := s.refresh(ctx); err != nil {
			return err
		}
	}
	return nil
}
