package applyset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// Move is a move of a set to another hook or name. The owner stays.
type Move struct {
	// Hook and Name are the hook and the name that the set gets.
	Hook, Name string
	// Join allows that this set has members already.
	Join bool
	// Check only finds out what would be moved.
	Check bool
}

// Adopt moves a set: its places to the parent of the new one, then each member, then it deletes its parent. It may be repeated after an
// interruption. It returns the id of the new set, and how many members were moved.
func (a *Applier) Adopt(ctx context.Context, log *slog.Logger, id string, to Move) (newID string, moved int, err error) {
	old, err := a.find(ctx, log, id)
	if err != nil {
		return "", 0, err
	}
	m := &move{old: old, next: old.renamed(to), join: to.Join, check: to.Check}
	newID = strings.TrimPrefix(m.next.names.parent, parentPrefix)
	switch {
	case m.next.id == old.id:
		return "", 0, fmt.Errorf("the set %s is already %q of hook %q", id, to.Name, to.Hook)
	case !effect.IsSetName(to.Name):
		return "", 0, &hintedError{fmt.Sprintf("%.100q is not the name of a set", to.Name),
			fmt.Sprintf("use a DNS label of at most %d characters", effect.MaxSetName)}
	}
	// All moves take turns in the same order, so that two of them do not wait for each other.
	both := []*session{m.old, m.next}
	slices.SortFunc(both, func(x, y *session) int { return cmp.Compare(x.id, y.id) })
	for _, s := range both {
		release, err := s.begin(ctx)
		if err != nil {
			return "", 0, err
		}
		defer release()
	}
	err = m.repeat(ctx)
	if err != nil && !errors.As(err, new(*hintedError)) {
		err = fmt.Errorf("the set %s is not moved completely, repeat the command: %w", id, err)
	}
	return newID, int(m.moved.Load()), err
}

// renamed returns the session of the set under another hook or name.
func (s *session) renamed(to Move) *session {
	set := *s.set
	set.Name = to.Name
	n := namesOf(s.opts.Instance, s.opts.Namespace, to.Hook, to.Name, s.setOwner())
	return &session{Applier: s.Applier, names: n, hook: to.Hook, set: &set, ownerKind: s.ownerKind, needs: s.needs,
		log: s.log.With("toHook", to.Hook, "toSet", to.Name)}
}

// move is one call of Adopt.
type move struct {
	old, next   *session
	join, check bool
	moved       atomic.Int64
}

// repeat moves the set. It begins again if another client was faster.
func (m *move) repeat(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		err := m.try(ctx)
		if err == nil || !apierrors.IsConflict(err) && !errors.Is(err, errOvertaken) || attempt == maxAttempts {
			return err
		}
	}
}

func (m *move) try(ctx context.Context) error {
	if err := m.old.readOwner(ctx); err != nil {
		return err
	}
	m.next.owner = m.old.owner
	var recorded [2]places
	for i, s := range []*session{m.old, m.next} {
		var err error
		if recorded[i], err = s.read(ctx); err != nil {
			return err
		}
		if err = errors.Join(s.incomplete...); err != nil {
			return fmt.Errorf("cannot list the members: %w", err)
		}
	}
	refs := slices.SortedFunc(maps.Keys(m.old.members), func(a, b ref) int { return strings.Compare(a.String(), b.String()) })
	begun := m.next.parent != nil && m.next.parent.Annotations[adoptedAnnotation] == m.old.id
	switch {
	case len(m.next.members) > 0 && len(refs) > 0 && !m.join && !begun:
		return &hintedError{fmt.Sprintf("the set %q of hook %q is not empty", m.next.set.Name, m.next.hook),
			"its next Sync deletes those objects of both sets that the hook does not return; use --force to join them"}
	case m.check:
		m.moved.Store(int64(len(refs)))
		return nil
	}
	if m.old.parent != nil { // nothing that was remembered of the old set is restored from now on
		if err := m.old.writeParent(ctx, m.old.parent.places, true); err != nil {
			return err
		}
	}
	if len(refs) > 0 {
		m.next.adopts = m.old.id
		if err := m.next.writeParent(ctx, recorded[1].union(recorded[0]), true); err != nil {
			return err
		}
	}
	errs := make([]error, len(refs))
	kube.Concurrently(len(refs), parallel, func(i int) { errs[i] = m.one(ctx, refs[i], m.old.members[refs[i]]) })
	if err := joined(errs); err != nil {
		return err
	}
	if m.old.parent != nil {
		// In the version that was written above: a later one may have more members.
		err := m.old.deleteObject(ctx, parentResource, m.old.parentPath(), &m.old.parent.live)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cannot delete the old parent: %w", explain(err, parentResource, m.old.namespace, "delete"))
		}
	}
	m.old.remember(places{})
	return nil
}

// one moves a member: one patch changes its label and the manager of its fields.
func (m *move) one(ctx context.Context, r ref, current *live) error {
	res := m.old.resources[r.GroupKind]
	path := append(res.Path(r.namespace), r.name)
	err := m.old.unlessReplaced(ctx, r, current, func(current *live) error {
		entries := slices.Clone(current.ManagedFields)
		for i := range entries {
			if e := &entries[i]; e.Manager == m.old.manager && e.Subresource == "" {
				e.Manager = m.next.manager
			}
		}
		// The API server makes the label an update by the new manager.
		steps := append(testsOf(current), step{"replace", labelPath, m.next.id}, step{"replace", "/metadata/managedFields", entries})
		_, err := m.next.patchJSON(ctx, res, path, steps)
		if err == nil {
			m.moved.Add(1)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot move %s: %w", r, explain(err, res, r.namespace, memberVerbs...))
	}
	return nil
}

// hintedError is an error of a command with the next step.
type hintedError struct{ problem, hint string }

func (e *hintedError) Error() string { return e.problem + ": " + e.hint }
func (e *hintedError) Hint() string  { return e.hint }
